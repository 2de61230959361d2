"""`hpcsci results`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import click

from hpcscientist.cli.shared.costs import footer
from hpcscientist.cli.shared.options import run_directory
from hpcscientist.execution.sandbox import isolation
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import printable
from hpcscientist.history import frozen
from hpcscientist.judgement.summary import Summary, read_rows
from hpcscientist.report.table import headline, table
from hpcscientist.results import export, logs
from hpcscientist.views import campaign
from hpcscientist.views.campaign import CampaignView


@click.command()
@run_directory
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", *export.FORMATS]),
    default="table",
    show_default=True,
)
@click.option("--verbose", is_flag=True, help="Show all columns, full titles and full reasons.")
@click.option("--log", "trial_id", metavar="TRIAL", help="Print the log of one trial instead.")
def results(
    directory: Path, form: Literal["table"] | export.Format, verbose: bool, trial_id: str | None
) -> None:
    """Print the ideas of the campaign in DIR and their results.

    A trial's name consists of idea, attempt, stage and number: idea-0001-a1-pilot-0.
    """
    paths = RunPaths(directory.absolute())
    if trial_id is not None:
        frozen.read(paths)  # raises the better error where DIR is no run directory
        log = logs.read(paths, trial_id)
        click.echo("\n".join(map(printable, log.removesuffix("\n").split("\n"))))
    elif form == "table":
        print_table(paths, str(directory), verbose=verbose)
    else:
        summary = read_rows(paths)
        export.write(summary.rows, form, sys.stdout.buffer)
        sys.stdout.flush()
        for line in (*_rule(summary), *_notes(summary)):
            _say(line, whole=True)


def print_table(paths: RunPaths, folder: str, *, verbose: bool = False) -> None:
    """Print the table of ideas, and last the best idea and the command to run next, on stdout.

    Facts that a reader needs to trust the table go to stderr. `folder` is the run directory as
    the user typed it.
    """
    view = campaign.read(paths, folder)
    table(view.rows, sys.stdout, verbose=verbose)
    sys.stdout.flush()
    for line in (*_rule(view.summary), *_more(view), *_notes(view.summary)):
        _say(line, whole=verbose or not sys.stderr.isatty())
    encoding = sys.stdout.encoding or "utf-8"
    last = headline(view.rows, view.next_command)
    click.echo(last.encode(encoding, "replace").decode(encoding))


def _say(line: str, *, whole: bool) -> None:
    """Print a line on stderr, cut to the terminal's width unless `whole`."""
    columns = shutil.get_terminal_size().columns
    click.echo(line if whole or len(line) <= columns else f"{line[: columns - 2]}..", err=True)


def _rule(summary: Summary) -> Iterator[str]:
    yield f"sandbox: {isolation.statement(summary.isolation, summary.host)}"
    yield f"findings: {summary.rule}"


def _more(view: CampaignView) -> Iterator[str]:
    summary = view.summary
    if summary.confirmation:
        yield f"confirmed: {summary.confirmation}"
    if summary.front_line:
        yield f"front: {summary.front_line}"
    if summary.quality is not None:
        yield f"code: {summary.quality}"
    if summary.knob_settings:
        said = "sets" if summary.knob_settings == 1 else "set"
        yield (
            f"ideas: {summary.knob_settings} of the model's {said} only knobs, as the control arm "
            "does"
        )
    yield from (f"cost: {line}" for line in footer(view.spending))
    yield from (f"arms: {line}" for line in (view.contest.lines() if view.contest else ()))


def _notes(summary: Summary) -> Iterator[str]:
    yield from (f"note: {note}" for note in summary.notes)
    if summary.missing.count:
        yield f"warning: {summary.missing.warning}"
    if summary.unreadable:
        yield f"warning: {summary.unreadable} result files cannot be read"
