"""`hpcsci report`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hpcscientist.cli.shared.options import run_directories
from hpcscientist.errors import HpcsciError, UsageError
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.rundir import RunPaths
from hpcscientist.report.comparison import comparison_page
from hpcscientist.report.page import page
from hpcscientist.views import campaign
from hpcscientist.views.cards import cards
from hpcscientist.views.comparison import compare
from hpcscientist.views.papers import manuscripts, number_sources, papers

_COMPARED = Path("comparison.html")


@click.command()
@run_directories
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Output file; - for stdout [DIR/report.html; comparison.html for several DIRs].",
)
def report(directories: tuple[Path, ...], out: Path | None) -> None:
    """Write a report of the campaign in DIR, running or ended, as one HTML page.

    The page is a single file that loads nothing from the network. For several DIRs the page
    compares the campaigns side by side at equal cost.
    """
    if len(set(directories)) < len(directories):
        raise UsageError("a campaign is given twice; give each DIR once")
    if len(directories) > 1:
        views = [campaign.read(RunPaths(d.absolute()), str(d)) for d in directories]
        parts, target = comparison_page(compare(views)), out or _COMPARED
    else:
        paths = RunPaths(directories[0].absolute())
        view = campaign.read(paths, str(directories[0]))
        given = papers(view.ideas, paths), number_sources(view), manuscripts(paths)
        parts = page(view, cards(view, paths), *given)
        target = out or paths.report
    content = "".join(parts).encode("utf-8", "replace")
    if str(target) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        write_atomic(target, content, durable=False)
    except OSError as error:
        why = f"{target}: cannot be written: {error.strerror}"
        raise HpcsciError(f"{why}; give --out FILE in a folder that you can write to") from error
    click.echo(f"{target}: {len(content) / 1e6:.1f} MB; open it in a browser")
