"""`hpcsci results`."""

from __future__ import annotations

import sys
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
from hpcscientist.report.table import table
from hpcscientist.report.words import headline
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
@click.option("--verbose", is_flag=True, help="Show every column, title and reason whole.")
@click.option("--log", "trial_id", metavar="TRIAL", help="Print what one trial wrote instead.")
def results(
    directory: Path, form: Literal["table"] | export.Format, verbose: bool, trial_id: str | None
) -> None:
    """Print the ideas of the campaign in DIR and what came of them.

    A trial is named by idea, attempt, stage and number: idea-0001-a1-pilot-0.
    """
    paths = RunPaths(directory.absolute())
    if trial_id is not None:
        frozen.read(paths)  # else it is no campaign's folder, and that is what there is to say
        log = logs.read(paths, trial_id)
        click.echo("\n".join(map(printable, log.removesuffix("\n").split("\n"))))
    elif form == "table":
        print_table(paths, str(directory), verbose=verbose)
    else:
        summary = read_rows(paths)
        export.write(summary.rows, form, sys.stdout.buffer)
        sys.stdout.flush()
        _say_rule(summary)
        _say_notes(summary)


def print_table(paths: RunPaths, folder: str, *, verbose: bool = False) -> None:
    """Print the table on stdout, and on stderr what a reader must know to trust it.

    `folder` is the run directory as commands name it.
    """
    view = campaign.read(paths, folder)
    table(view.rows, sys.stdout, verbose=verbose, last=headline(view.rows, view.next_command))
    sys.stdout.flush()
    _say_rule(view.summary)
    _say_more(view)
    _say_notes(view.summary)


def _say_rule(summary: Summary) -> None:
    click.echo(f"sandbox: {isolation.statement(summary.isolation, summary.host)}", err=True)
    click.echo(f"findings: {summary.rule}", err=True)


def _say_more(view: CampaignView) -> None:
    summary = view.summary
    if summary.confirmation:
        click.echo(f"confirmed: {summary.confirmation}", err=True)
    if summary.quality is not None:
        click.echo(f"code: {summary.quality}", err=True)
    if summary.knob_settings:
        said = "sets" if summary.knob_settings == 1 else "set"
        click.echo(
            f"ideas: {summary.knob_settings} of the model's {said} only knobs, as the control arm "
            "does",
            err=True,
        )
    for line in footer(view.spending):
        click.echo(f"cost: {line}", err=True)
    for line in view.contest.lines() if view.contest else ():
        click.echo(f"arms: {line}", err=True)


def _say_notes(summary: Summary) -> None:
    for note in summary.notes:
        click.echo(f"note: {note}", err=True)
    if summary.missing.count:
        click.echo(f"warning: {summary.missing.warning}", err=True)
    if summary.unreadable:
        click.echo(f"warning: {summary.unreadable} result files cannot be read", err=True)
