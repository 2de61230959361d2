"""`hpcsci results`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hpcscientist.cli.shared.costs import footer
from hpcscientist.cli.shared.options import run_directory
from hpcscientist.execution.sandbox import isolation
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import printable
from hpcscientist.history import frozen
from hpcscientist.history.status import read_state
from hpcscientist.judgement import arms
from hpcscientist.judgement.summary import read_rows
from hpcscientist.launching.costs import spending
from hpcscientist.results import export, logs


@click.command()
@run_directory
@click.option(
    "--format", "form", type=click.Choice(export.FORMATS), default="table", show_default=True
)
@click.option("--log", "trial_id", metavar="TRIAL", help="Print what one trial wrote instead.")
def results(directory: Path, form: export.Format, trial_id: str | None) -> None:
    """Print the ideas of the campaign in DIR and what came of them.

    A trial is named by idea, attempt, stage and number: idea-0001-a1-pilot-0.
    """
    paths = RunPaths(directory.absolute())
    if trial_id is None:
        print_results(paths, form)
        return
    frozen.read(paths)  # else it is no campaign's folder, and that is what there is to say
    log = logs.read(paths, trial_id)
    click.echo("\n".join(map(printable, log.removesuffix("\n").split("\n"))))


def print_results(paths: RunPaths, form: export.Format) -> None:
    """Print the results on stdout, and on stderr what a reader must know to trust them."""
    summary = read_rows(paths)
    export.write(summary.rows, form, sys.stdout, sys.stdout.buffer)
    sys.stdout.flush()
    click.echo(f"sandbox: {isolation.statement(summary.isolation, summary.host)}", err=True)
    click.echo(f"findings: {summary.rule}", err=True)
    if form == "table" and summary.confirmation:
        click.echo(f"confirmed: {summary.confirmation}", err=True)
    if form == "table" and summary.quality is not None:
        click.echo(f"code: {summary.quality}", err=True)
    if form == "table" and summary.knob_settings:
        said = "sets" if summary.knob_settings == 1 else "set"
        click.echo(
            f"ideas: {summary.knob_settings} of the model's {said} only knobs, as the control arm "
            "does",
            err=True,
        )
    if form == "table":
        found = spending.Counted.of(summary.rows, confirms=bool(summary.confirmation))
        for line in footer(spending.read(paths, found)):
            click.echo(f"cost: {line}", err=True)
        # Events of earlier versions do not tell whose idea it is.
        alone = frozen.read(paths).model_spec == "search"
        contest = None if alone else arms.compare(summary.rows, read_state(paths))
        for line in contest.lines() if contest else ():
            click.echo(f"arms: {line}", err=True)
    for note in summary.notes:
        click.echo(f"note: {note}", err=True)
    if summary.missing.count:
        click.echo(f"warning: {summary.missing.warning}", err=True)
    if summary.unreadable:
        click.echo(f"warning: {summary.unreadable} result files cannot be read", err=True)
