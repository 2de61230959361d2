"""`hpcsci library`: builds, extends and searches local libraries of papers and code."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpcscientist.cli.shared.options import interruptible, settings_from
from hpcscientist.errors import Interrupted, UsageError
from hpcscientist.files.handed import expanded
from hpcscientist.files.text import one_line, printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from hpcscientist.literature.index.search import SearchableLibrary
    from hpcscientist.literature.library.build import BuildReport
    from hpcscientist.literature.library.indexing import BuildStep, LibraryIndex
    from hpcscientist.literature.library.paths import LibraryPaths
    from hpcscientist.records.literature import FormulaHit, Hit, SearchBy, SymbolHit, Why


# `hpcsci library fetch`: adds what an online service finds to a local library.

_SERVICES = ("semantic-scholar", "arxiv", "openalex")


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--library", "folder", metavar="DIR", required=True, type=click.Path(path_type=Path))
@click.option("--from", "service", required=True, type=click.Choice(_SERVICES))
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
def fetch(words: tuple[str, ...], folder: Path, service: str, limit: int) -> None:
    """Search an online service for WORDS and add the papers it finds to the library in DIR.

    Requests respect the service's rate limits. Each query is sent only once: your cache folder
    keeps the answers. If you have API keys, set HPCSCI_S2_API_KEY and HPCSCI_OPENALEX_API_KEY.
    """
    from hpcscientist.literature.library.build import build  # noqa: PLC0415
    from hpcscientist.literature.library.paths import LibraryPaths, refusal  # noqa: PLC0415
    from hpcscientist.literature.library.store import check_folder  # noqa: PLC0415
    from hpcscientist.literature.online import fetch as fetching  # noqa: PLC0415
    from hpcscientist.literature.online.cache import Cache  # noqa: PLC0415
    from hpcscientist.literature.online.library import asker, default_cache  # noqa: PLC0415
    from hpcscientist.literature.online.services import NAMES  # noqa: PLC0415

    paths = LibraryPaths(folder)
    before, index = check_folder(paths), _index(paths)
    name = next(name for name in NAMES if name.replace("_", "-") == service)
    query = " ".join(words)
    with interruptible():
        papers = fetching.fetch(asker(name, Cache(default_cache()), _say), query, limit, _say)
        if not papers:
            _say(f"{service} finds nothing for {query!r}; try other words")
            return
        try:
            source = fetching.keep(papers, paths.fetched, name, query)
        except OSError as error:
            raise refusal(paths.fetched, error) from error
        with BuildDisplay() as progress:
            report = build([source], folder, index=index, progress=progress)
    for paper in papers:
        click.echo(f"{paper.paper_id}  {paper.year or '????'}  {printable(paper.title)}")
    known = before.papers if before else 0
    _say(
        f"{folder}: {report.papers:,} papers, {report.papers - known:,} of them new; "
        f"{service} found {len(papers):,}"
    )


def _index(paths: LibraryPaths) -> LibraryIndex:
    """Return an indexer for a library that keeps the library's embedding model."""
    from hpcscientist.literature.index import catalogue  # noqa: PLC0415 (heavy)
    from hpcscientist.literature.index.update import LibraryIndex  # noqa: PLC0415

    known = catalogue.read(catalogue.IndexPaths(paths.index))
    settings = settings_from().embedding
    if known is not None and known.vectors is not None:
        settings = settings.model_copy(update={"model": known.vectors.model})
    return LibraryIndex(settings)


def _say(line: str) -> None:
    click.echo(line, err=True)


# `hpcsci library search`: what a library finds, and why.

_TERMS = 6  # shown per hit
_CODE_LINES = 6  # shown per symbol
_SOURCES = {
    "papers": "papers",
    "formulas": "them from PDFs and LaTeX sources",
    "symbols": "them from folders of reference code",
}
_SEARCHES = ("keyword", "embedding", "both")


@click.command()
@click.argument("words", metavar="WORDS...", nargs=-1, required=True)
@click.option("--library", "folder", metavar="DIR", help="The library [literature.library].")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N")
@click.option("--by", type=click.Choice(_SEARCHES), help="How papers are matched [both].")
@click.option("--formulas", is_flag=True, help="Search formulas instead of papers.")
@click.option("--code", is_flag=True, help="Search functions and classes instead of papers.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array on stdout.")
def search(
    words: tuple[str, ...],
    folder: str | None,
    limit: int,
    by: SearchBy | None,
    formulas: bool,
    code: bool,
    as_json: bool,
) -> None:
    """Search a library for papers, and show why each one matches.

    WORDS are plain words, not a query language. Papers are matched by words, by embedding, or by
    both; formulas and code by words.
    """
    from hpcscientist.literature.index.search import open_library  # noqa: PLC0415 (heavy)

    if formulas and code:
        raise UsageError("give --formulas or --code, not both")
    if by and (formulas or code):
        raise UsageError("--by is for papers; leave it out with --formulas and --code")
    library = open_library(_folder(folder))
    query = " ".join(words)
    if library.unindexed:
        _hint(f"{library.unindexed:,} papers are not indexed yet; build the library again")
    if formulas:
        found = [_formula(hit) for hit in library.formulas(query, limit)]
    elif code:
        found = [_symbol(hit) for hit in library.symbols(query, limit)]
    else:
        found = [_paper(hit, library, query) for hit in library.search(query, limit, by or "both")]
    _show(found, as_json)
    if not found:
        what = "formulas" if formulas else "symbols" if code else "papers"
        _hint(_way_on(library, query, what, by))


def _folder(given: str | None) -> Path:
    name = given or settings_from().literature.library
    if not name:
        raise UsageError("no library is given; give --library DIR, or set literature.library")
    return expanded(name)


def _show(found: list[tuple[dict[str, Any], list[str]]], as_json: bool) -> None:
    """Print hits as JSON, or as numbered text."""
    if as_json:
        click.echo(json.dumps([data for data, _ in found], indent=2, ensure_ascii=True))
        return
    for number, (_, lines) in enumerate(found, start=1):
        click.echo(f"{number:>3}. {lines[0]}")
        for line in lines[1:]:
            click.echo(f"     {line}")


def _paper(hit: Hit, library: SearchableLibrary, query: str) -> tuple[dict[str, Any], list[str]]:
    from hpcscientist.literature.index.keyword import snippet  # noqa: PLC0415 (late)

    paper = library.paper(hit.paper_id)
    piece = snippet(paper, query) if paper else ""
    year = f" ({hit.year})" if hit.year else ""
    lines = [f"{_line(hit.title)}{year}", _line(f"{hit.paper_id}, from {hit.origin}")]
    lines += [f"why: {_why(hit.why)}", *([_line(piece)] if piece else [])]
    return {**hit.model_dump(mode="json"), "snippet": piece}, lines


def _why(why: Why) -> str:
    parts = []
    if why.keyword_rank is not None:
        shown = [f"{_line(t.term)} ({t.field}) {t.weight:.1f}" for t in why.terms[:_TERMS]]
        more = len(why.terms) - _TERMS
        shown += [f"{more} more"] if more > 0 else []
        parts.append(f"{', '.join(shown)}: rank {why.keyword_rank} by keyword")
    if why.embedding_rank is not None:
        parts.append(f"cosine {why.cosine:.2f}: rank {why.embedding_rank} by embedding")
    return "; ".join(parts)


def _formula(hit: FormulaHit) -> tuple[dict[str, Any], list[str]]:
    where = f"{hit.title}, {hit.formula.section}" if hit.formula.section else hit.title
    lines = [_line(hit.formula.text), _line(hit.formula_id), f"in: {_line(where)}"]
    lines += [_line(hit.formula.context)] if hit.formula.context else []
    return hit.model_dump(mode="json"), lines


def _symbol(hit: SymbolHit) -> tuple[dict[str, Any], list[str]]:
    symbol = hit.symbol
    lines = [f"{symbol.kind} {_line(symbol.name)}", _line(symbol.symbol_id)]
    first = symbol.docstring.strip().partition("\n")[0]
    lines += [_line(first)] if first else []
    code = symbol.code.splitlines()
    lines += ["| " + printable(line)[:120] for line in code[:_CODE_LINES]]
    lines += [f"| … {len(code) - _CODE_LINES} more lines"] if len(code) > _CODE_LINES else []
    data = {"symbol_id": symbol.symbol_id, **hit.model_dump(mode="json")}
    return data, lines


def _way_on(library: SearchableLibrary, query: str, what: str, by: SearchBy | None) -> str:
    """Return advice for a search that found nothing."""
    if not any(library.counts.values()):
        what = "papers"  # the library is empty
    if not library.counts[what]:
        return f"the library holds no {what}; `hpcsci library build` adds {_SOURCES[what]}"
    said = f"no {what} were found among {library.counts[what]:,}"
    near = library.suggest(query)
    if near:
        said += f"; similar words in titles: {_line(', '.join(near))}"
    ways = {"keyword": ", or --by embedding", "embedding": ", or --by keyword"}
    return f"{said}; try fewer or more general words{ways.get(by or '', '')}"


def _line(text: str) -> str:
    return one_line(printable(text))


def _hint(text: str) -> None:
    click.echo(f"hpcsci: {text}", err=True)


_REASONS = 5
_PATH = click.Path(path_type=Path)


@click.group()
def library() -> None:
    """Build and search libraries of papers and code, offline."""


@library.command()
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=_PATH)
@click.option("--out", metavar="DIR", required=True, type=_PATH, help="The library's folder.")
@click.option("--jobs", type=click.IntRange(1), help="Reader processes [one per core].")
@click.option("--prune", is_flag=True, help="Remove what is no longer among the inputs.")
@click.option("--again", is_flag=True, help="Read skipped inputs again.")
@click.option("--sweep", is_flag=True, help="Delete files replaced by earlier builds at once.")
@click.option(
    "--embedding-model",
    metavar="FOLDER",
    help="A sentence-transformers model for the papers' vectors [none: learned from the papers].",
)
def build(
    inputs: tuple[Path, ...],
    out: Path,
    jobs: int | None,
    prune: bool,
    again: bool,
    sweep: bool,
    embedding_model: str | None,
) -> None:
    """Build a library from files and folders, or update the one in DIR.

    Inputs are PDF, BibTeX, LaTeX, metadata of arXiv, Semantic Scholar and OpenAlex, and folders of
    code, in any mix. Only new and changed inputs are read. After an interruption, run the same
    command again to continue.
    """
    from hpcscientist.literature.library.processes.forks import forks_for  # noqa: PLC0415 (late, as below)

    try:
        with interruptible(), forks_for(inputs, out) as forks:
            from hpcscientist.literature.index.update import LibraryIndex  # noqa: PLC0415
            from hpcscientist.literature.library import build as building  # noqa: PLC0415

            options = building.BuildOptions(prune=prune, again=again, sweep=sweep)
            index = LibraryIndex(settings_from(**{"embedding.model": embedding_model}).embedding)
            with BuildDisplay() as progress:
                report = building.build(
                    inputs,
                    out,
                    jobs=jobs,
                    options=options,
                    index=index,
                    progress=progress,
                    forks=forks,
                )
    except Interrupted as stop:
        raise Interrupted(f"{stop}; what was read is kept; run it again to continue") from stop
    _tell(report)
    if report.useless:
        named = ", ".join(printable(str(path)) for path in inputs[:_REASONS])
        more = ", …" if len(inputs) > _REASONS else ""
        click.echo(f"hpcsci: nothing could be read from {one_line(named)}{more}", err=True)
        click.get_current_context().exit(1)


library.add_command(fetch)
library.add_command(search)


def _tell(report: BuildReport) -> None:
    """Print what the library holds on stdout, and what was skipped on stderr."""
    click.echo(
        f"{report.folder}: {report.papers:,} papers, {report.symbols:,} symbols, "
        f"{report.formulas:,} formulas ({report.read:,} inputs read, {report.unchanged:,} unchanged"
        f"{f', {report.gone:,} removed' if report.gone else ''})"
    )
    reasons = sorted(report.skipped.items(), key=lambda item: (-item[1], item[0]))
    if not reasons:
        return
    click.echo(
        f"{sum(report.skipped.values()):,} skipped or not read completely; all are in "
        f"{report.folder / 'skipped.jsonl'}:",
        err=True,
    )
    for reason, count in reasons[:_REASONS]:
        click.echo(f"  {count:,} x {one_line(printable(reason))}", err=True)
    if len(reasons) > _REASONS:
        click.echo(f"  and {len(reasons) - _REASONS:,} other reasons", err=True)


# The progress of a build: bars on a terminal, else a line every few seconds.

_EVERY_S = 10.0
_REDRAW_S = 0.1


class BuildDisplay:
    """A display of a build's steps on stderr, used as a context manager."""

    def __init__(self) -> None:
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}
        self._begun: dict[str, float] = {}
        self._told = self._drawn = time.monotonic()
        self._silent = False

    def __enter__(self) -> BuildDisplay:
        """Start to draw bars if stderr is a terminal."""
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 (for terminals only)
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
            from rich.progress import Progress as Bars  # noqa: PLC0415

            shown = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
            )
            text = TextColumn("{task.fields[rate]}")
            self._bars = Bars(*shown, text, TimeRemainingColumn(), console=Console(stderr=True))
            self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop drawing; the bars stay on the screen."""
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, step: BuildStep) -> None:
        """Show the progress of a step."""
        now = time.monotonic()
        first = step.name not in self._begun
        begun = self._begun.setdefault(step.name, now)
        ended = step.total > 0 and step.done >= step.total
        rate = (
            f"{step.documents:,} documents, {step.documents / max(now - begun, 1e-3):,.0f} a second"
        )
        if self._bars is not None:
            if first or ended or now - self._drawn > _REDRAW_S:
                self._drawn = now
                self._draw(self._bars, step, rate if step.documents else "")
        elif (ended and not first) or now - self._told > _EVERY_S:
            self._told = now
            share = f" {100 * step.done / step.total:.0f} %" if step.total else ""
            self._say(f"{step.name}:{share}{f', {rate}' if step.documents else ''}")

    def _draw(self, bars: Bars, step: BuildStep, rate: str) -> None:
        total = step.total or None
        if step.name not in self._tasks:
            self._tasks[step.name] = bars.add_task(step.name, total=total, rate=rate)
        bars.update(self._tasks[step.name], completed=step.done, total=total, rate=rate)

    def _say(self, line: str) -> None:
        if not self._silent:
            try:
                click.echo(line, err=True)
            except OSError:
                self._silent = True  # the reader of stderr is gone; the build continues
