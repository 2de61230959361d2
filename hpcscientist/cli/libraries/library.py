"""`hpcsci library`: papers and code that lie here, and searches in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpcscientist.cli.libraries.fetch import fetch
from hpcscientist.cli.libraries.search import search
from hpcscientist.cli.shared.options import settings_from
from hpcscientist.cli.shared.signals import interruptible
from hpcscientist.errors import Interrupted
from hpcscientist.files.text import one_line, printable

if TYPE_CHECKING:
    from hpcscientist.literature.library.build import BuildReport

_REASONS = 5
_PATH = click.Path(path_type=Path)


@click.group()
def library() -> None:
    """Papers and code to look things up in, offline."""


@library.command()
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True, type=_PATH)
@click.option("--out", metavar="DIR", required=True, type=_PATH, help="The library's folder.")
@click.option("--jobs", type=click.IntRange(1), help="Processes that read [one a core].")
@click.option("--prune", is_flag=True, help="Remove what is not among the inputs any more.")
@click.option("--again", is_flag=True, help="Read once more what was skipped before.")
@click.option("--sweep", is_flag=True, help="Give back at once what was replaced before.")
@click.option(
    "--embedding-model",
    metavar="FOLDER",
    help="Of sentence-transformers, for the papers' vectors [none: learnt from the papers].",
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
    """Build a library from files and folders, or bring the one in DIR up to date.

    PDF, BibTeX, LaTeX, metadata of arXiv, Semantic Scholar and OpenAlex, and folders of code, in
    any mix. Only what is new or has changed is read. Stopped at any moment, the same command
    goes on.
    """
    from hpcscientist.literature.library.processes.early import forks_for  # noqa: PLC0415 (late, as below)

    try:
        with interruptible(), forks_for(inputs, out) as forks:
            from hpcscientist.cli.libraries.progress import Progress  # noqa: PLC0415
            from hpcscientist.literature.index.update import LibraryIndex  # noqa: PLC0415
            from hpcscientist.literature.library import build as building  # noqa: PLC0415

            options = building.Options(prune=prune, again=again, sweep=sweep)
            index = LibraryIndex(settings_from(**{"embedding.model": embedding_model}).embedding)
            with Progress() as progress:
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
        raise Interrupted(f"{stop}; what was read is kept: the same command goes on") from stop
    _tell(report)
    if report.useless:
        named = ", ".join(printable(str(path)) for path in inputs[:_REASONS])
        more = ", …" if len(inputs) > _REASONS else ""
        click.echo(f"hpcsci: nothing could be read from {one_line(named)}{more}", err=True)
        click.get_current_context().exit(1)


library.add_command(fetch)
library.add_command(search)


def _tell(report: BuildReport) -> None:
    """Say what the library holds on stdout, and what it does not on stderr."""
    click.echo(
        f"{report.folder}: {report.papers:,} papers, {report.symbols:,} symbols, "
        f"{report.formulas:,} formulas ({report.read:,} inputs read, {report.unchanged:,} unchanged"
        f"{f', {report.gone:,} removed' if report.gone else ''})"
    )
    reasons = sorted(report.skipped.items(), key=lambda item: (-item[1], item[0]))
    if not reasons:
        return
    click.echo(
        f"{sum(report.skipped.values()):,} skipped, or not read whole; all are in "
        f"{report.folder / 'skipped.jsonl'}:",
        err=True,
    )
    for reason, count in reasons[:_REASONS]:
        click.echo(f"  {count:,} x {one_line(printable(reason))}", err=True)
    if len(reasons) > _REASONS:
        click.echo(f"  and {len(reasons) - _REASONS:,} other reasons", err=True)
