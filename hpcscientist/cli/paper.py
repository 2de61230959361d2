"""`hpcsci paper`."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from hpcscientist.cli.shared.options import optional_run_directory, settings_from, unwind_on
from hpcscientist.errors import UsageError
from hpcscientist.files.handed import expanded
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import printable
from hpcscientist.papers.make import (
    FinishedPaper,
    PaperOptions,
    PlannedPaper,
    Unwritten,
    make,
    plan,
)
from hpcscientist.papers.trace import COLUMNS, TraceRow, as_table
from hpcscientist.papers.venue import DEFAULT, names
from hpcscientist.papers.verify import Verified, traced, verify
from hpcscientist.records.manuscript import Defect

_MOST_SHOWN = 20  # defects of one paper
_MB = 1e6
_LEAST_WIDTH = 180  # columns of the table of --trace


@click.command()
@optional_run_directory
@click.option(
    "--idea", "ideas", multiple=True, metavar="ID", help="A paper on this idea; may be repeated."
)
@click.option(
    "--venue",
    default=DEFAULT,
    show_default=True,
    metavar="V",
    help=f"{', '.join(names())}, or a folder with venue.toml and paper.tex.",
)
@click.option("--model", default="", metavar="SPEC", help="The writing model [the campaign's].")
@click.option("--pages", type=click.IntRange(1), help="Maximum pages of text [the venue's].")
@click.option("--out", metavar="FOLDER", help="Output folder [DIR/papers].")
@click.option("--dry-run", is_flag=True, help="Show what would be written and what is missing.")
@click.option("--check", "checked", metavar="PAPER", help="Check a paper against its campaign.")
@click.option(
    "--trace", "paper_folder", metavar="PAPER", help="Print where each number comes from."
)
@click.option("--json", "as_json", is_flag=True, help="With --check or --trace: JSON on stdout.")
def paper(
    directory: Path | None,
    checked: str | None,
    paper_folder: str | None,
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Write papers on the campaign in DIR; every number in them links to its record.

    Without --idea: one paper for each confirmed improvement, and one on the whole campaign.
    """
    here = Path.cwd()
    run = None if directory is None else directory.absolute()
    if checked and paper_folder:
        raise UsageError("--check and --trace: give only one of them")
    if checked:
        return _checked(verify((here / expanded(checked)).absolute(), run), as_json)
    if paper_folder:
        return _traced(traced((here / expanded(paper_folder)).absolute()), as_json)
    if run is None:
        raise UsageError("DIR is missing: give the run directory of a campaign")
    if as_json:
        raise UsageError("--json: works only with --check or --trace; leave it out")
    unwind_on(signal.SIGTERM, signal.SIGHUP)
    wanted = PaperOptions(
        folder=here,
        settings=settings_from(),
        ideas=tuple(given["ideas"]),
        venue=given["venue"],
        model=given["model"],
        pages=given["pages"],
        out=(here / expanded(given["out"])).absolute() if given["out"] else None,
    )
    if dry_run:
        return _planned(*plan(RunPaths(run), wanted))
    sound = [_made(found) for found in make(RunPaths(run), wanted, _say)]
    return 0 if all(sound) else 1


def _say(text: str) -> None:
    click.echo(f"paper: {printable(text)}", err=True)


def _made(found: FinishedPaper | Unwritten) -> bool:
    """Print the result of one paper; return whether the paper passed its checks."""
    if isinstance(found, Unwritten):
        click.echo(f"{found.subject}: not written: {printable(found.reason)}")
        return False
    built = found.built
    click.echo(f"{found.subject}: {printable(found.title)}")
    if built.pdf is not None:
        size = built.pdf.stat().st_size / _MB
        pages = f"{built.pages} pages of text, " if built.pages else ""
        click.echo(
            f"  {built.pdf}: {pages}{size:.2f} MB, TeX took {built.seconds:.1f} s "
            f"({built.passes} passes, {built.peak_mb:.0f} MiB)"
        )
    else:
        click.echo(f"  {built.folder / 'paper.html'}: no PDF was made")
    if built.preview is not None:
        click.echo(f"  {built.preview}: a preview, unchecked and not in the venue's layout")
    if built.reading is not None:
        _coverage(built.reading.explained, built.reading.digits, built.reading.links)
    if built.boxes:
        letters = printable(built.boxes)
        click.echo(f"  missing in TeX's fonts, set as boxes or with one of two accents: {letters}")
    tally, written = found.tally, found.written
    click.echo(
        f"  writing: {tally.replies} replies, {written.sent_back} sent back with defects, "
        f"{tally.prompt_tokens} tokens read and {tally.completion_tokens} written"
    )
    for section in written.struck:
        click.echo(f"  left out: sentences of {section} whose defects were not fixed")
    _defects(found.defects)
    for text in built.lacking:
        click.echo(f"  {text}")
    return found.is_sound


def _coverage(explained: int, digits: int, links: int) -> None:
    share = 100 * explained / digits if digits else 100.0
    # Less than all digits must never be printed as 100 %.
    shown = f"{share:.0f}" if explained == digits else f"{min(share, 99.9):.1f}"
    click.echo(
        f"  coverage: {shown} % ({explained} of {digits} digits explained, {links} links to the "
        "trace)"
    )


def _defects(found: Sequence[Defect]) -> None:
    for defect in found[:_MOST_SHOWN]:
        click.echo(f"  defect: {printable(str(defect))}")
    if len(found) > _MOST_SHOWN:
        click.echo(f"  and {len(found) - _MOST_SHOWN} more defects; --check --json lists them")


def _planned(found: Iterable[PlannedPaper], lacking: Iterable[str]) -> int:
    for planned in found:
        click.echo(f"{planned.subject}: {printable(planned.title)}")
        click.echo(f"  folder: {planned.folder}")
        click.echo(f"  sections: {', '.join(planned.sections)}")
        click.echo(f"  figures: {', '.join(planned.figures) or 'none'}")
    for text in lacking:
        click.echo(text)
    return 0


def _checked(found: Verified, as_json: bool) -> int:
    if as_json:
        reading = found.reading
        told = {
            "paper": str(found.folder),
            "sound": found.is_sound,
            "coverage": found.coverage,
            "numbers": found.numbers,
            "digits": reading.digits if reading else None,
            "links": reading.links if reading else None,
            "unread": found.unread or None,
            "defects": [json.loads(defect.model_dump_json()) for defect in found.defects],
        }
        click.echo(json.dumps(told))
        return 0 if found.is_sound else 1
    click.echo(f"{found.folder}: {found.numbers} numbers")
    if found.reading is not None:
        _coverage(found.reading.explained, found.reading.digits, found.reading.links)
    else:
        click.echo(f"  not checked: {found.unread}")
    _defects(found.defects)
    click.echo("holds" if found.is_sound else "does not hold")
    return 0 if found.is_sound else 1


def _traced(rows: tuple[TraceRow, ...], as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps([row.model_dump(mode="json") for row in rows]))
    else:
        _table(rows)
    return 1 if any(row.problem for row in rows) else 0


def _table(rows: tuple[TraceRow, ...]) -> None:
    from rich import box  # noqa: PLC0415 (programs that ask for JSON do without)
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, show_lines=True)
    for name in COLUMNS:
        grid.add_column(name, overflow="fold", no_wrap=name in ("number", "where"))
    for line in as_table(rows):
        grid.add_row(*(Text(printable(cell)) for cell in line))
    console = Console(markup=False, emoji=False, highlight=False)
    # A narrower table would break hashes into single letters.
    Console(markup=False, width=max(_LEAST_WIDTH, console.width)).print(grid)
