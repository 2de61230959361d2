"""`hpcsci cancel`."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from hpcscientist.cli.shared.options import run_directory, settings_from
from hpcscientist.config.layers import default_data_root, default_private_root
from hpcscientist.errors import HpcsciError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.launching.jobs import cancel as cancelling
from hpcscientist.recipe import folder_copy


@click.command()
@run_directory
def cancel(directory: Path) -> None:
    """Stop the campaign in DIR and all its jobs and processes; it can be resumed."""
    paths = RunPaths(directory.absolute())
    alive = cancelling.cancel(paths, tell=lambda text: click.echo(text, err=True))
    was = "stopped" if alive else "was not running; no job or process is left"
    click.echo(f"{paths.root}: {was}", err=True)
    with contextlib.suppress(HpcsciError, OSError):  # stopping needs no configuration
        settings = settings_from()
        folder_copy.clear_staging(default_data_root(settings), default_private_root(settings))
