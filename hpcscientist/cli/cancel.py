"""`hpcsci cancel`."""

from __future__ import annotations

from pathlib import Path

import click

from hpcscientist.campaign import cancel as cancelling
from hpcscientist.cli.options import run_directory
from hpcscientist.files.rundir import RunPaths


@click.command()
@run_directory
def cancel(directory: Path) -> None:
    """Stop the campaign in DIR and leave nothing running; it can be resumed."""
    paths = RunPaths(directory.absolute())
    alive = cancelling.cancel(paths, tell=lambda text: click.echo(text, err=True))
    was = "stopped" if alive else "was not running; nothing of it is left"
    click.echo(f"{paths.root}: {was}", err=True)
