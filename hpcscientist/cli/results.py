"""`hpcsci results`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hpcscientist.campaign.summary import read_rows
from hpcscientist.cli.options import run_directory
from hpcscientist.execution import isolation
from hpcscientist.files.rundir import RunPaths
from hpcscientist.results import export


@click.command()
@run_directory
@click.option(
    "--format", "form", type=click.Choice(export.FORMATS), default="table", show_default=True
)
def results(directory: Path, form: export.Format) -> None:
    """Print the ideas of the campaign in DIR and what came of them."""
    print_results(RunPaths(directory.absolute()), form)


def print_results(paths: RunPaths, form: export.Format) -> None:
    """Print the results on stdout, and on stderr what a reader must know to trust them."""
    summary = read_rows(paths)
    export.write(summary.rows, form, sys.stdout, sys.stdout.buffer)
    sys.stdout.flush()
    click.echo(f"sandbox: {isolation.statement(summary.isolation)}", err=True)
    for note in summary.notes:
        click.echo(f"note: {note}", err=True)
    if summary.missing:
        click.echo(
            f"warning: {summary.missing} results of scored trials are gone or were changed since "
            "they were journalled; their ideas have no "
            "finding",
            err=True,
        )
    if summary.unreadable:
        click.echo(f"warning: {summary.unreadable} result files cannot be read", err=True)
