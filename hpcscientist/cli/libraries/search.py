"""`hpcsci library search`: what a library finds, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpcscientist.cli.shared.options import settings_from
from hpcscientist.errors import UsageError
from hpcscientist.files.handed.place import expanded
from hpcscientist.files.text import one_line, printable

if TYPE_CHECKING:
    from hpcscientist.literature.index.search import SearchableLibrary
    from hpcscientist.records.known.literature import FormulaHit, Hit, SearchBy, SymbolHit, Why

_TERMS = 6  # of a hit that are told
_CODE_LINES = 6  # of a symbol that are shown
_SOURCES = {
    "papers": "papers",
    "formulas": "them from PDFs and LaTeX sources",
    "symbols": "them from folders of reference code",
}
_SEARCHES = ("keyword", "embedding", "both")


@click.command()
@click.argument("words", metavar="WORDS...", nargs=-1, required=True)
@click.option("--library", "folder", metavar="DIR", help="[as configured: literature.library].")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N")
@click.option("--by", type=click.Choice(_SEARCHES), help="Search papers by [both].")
@click.option("--formulas", is_flag=True, help="Formulas of papers instead of papers.")
@click.option("--code", is_flag=True, help="Functions and classes of reference code.")
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
    """Search a library for papers, and say why each was found.

    WORDS are free words, not an expression. Papers are found by their words, by their vectors,
    or by both; formulas and code by words.
    """
    from hpcscientist.literature.index.search import open_library  # noqa: PLC0415 (heavy)

    if formulas and code:
        raise UsageError("give --formulas or --code, not both")
    if by and (formulas or code):
        raise UsageError("--by is for papers; formulas and code are found by their words")
    library = open_library(_folder(folder))
    query = " ".join(words)
    if library.unindexed:
        _say(f"{library.unindexed:,} papers are not indexed yet; build the library again")
    if formulas:
        found = [_formula(hit) for hit in library.formulas(query, limit)]
    elif code:
        found = [_symbol(hit) for hit in library.symbols(query, limit)]
    else:
        found = [_paper(hit, library, query) for hit in library.search(query, limit, by or "both")]
    _show(found, as_json)
    if not found:
        what = "formulas" if formulas else "symbols" if code else "papers"
        _say(_way_on(library, query, what, by))


def _folder(given: str | None) -> Path:
    name = given or settings_from().literature.library
    if not name:
        raise UsageError("which library? Give --library DIR, or set literature.library")
    return expanded(name)


def _show(found: list[tuple[dict[str, Any], list[str]]], as_json: bool) -> None:
    """Write hits as JSON, or as lines for people, the first of each numbered."""
    if as_json:
        click.echo(json.dumps([data for data, _ in found], indent=2, ensure_ascii=True))
        return
    for number, (_, lines) in enumerate(found, start=1):
        click.echo(f"{number:>3}. {lines[0]}")
        for line in lines[1:]:
            click.echo(f"     {line}")


def _paper(hit: Hit, library: SearchableLibrary, query: str) -> tuple[dict[str, Any], list[str]]:
    from hpcscientist.literature.index.words.snippet import snippet  # noqa: PLC0415 (late)

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
    """Say what may help where nothing was found."""
    if not any(library.counts.values()):
        what = "papers"  # nothing at all
    if not library.counts[what]:
        return f"the library holds no {what}; `hpcsci library build` adds {_SOURCES[what]}"
    said = f"no {what} were found among {library.counts[what]:,}"
    near = library.suggest(query)
    if near:
        said += f"; words of titles that are written alike: {_line(', '.join(near))}"
    ways = {"keyword": ", or --by embedding", "embedding": ", or --by keyword"}
    return f"{said}; try fewer or more general words{ways.get(by or '', '')}"


def _line(text: str) -> str:
    return one_line(printable(text))


def _say(text: str) -> None:
    click.echo(f"hpcsci: {text}", err=True)
