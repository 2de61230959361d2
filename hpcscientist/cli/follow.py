"""`hpcsci status` and `hpcsci cancel`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hpcscientist.campaign import cancel as cancelling
from hpcscientist.campaign import status as reading
from hpcscientist.cli.options import run_directory
from hpcscientist.files.rundir import RunPaths


@click.command()
@run_directory
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def status(directory: Path, as_json: bool) -> None:
    """Show where the campaign in DIR stands."""
    found = reading.status(RunPaths(directory.absolute()))
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(f"{found['campaign']}: {found['state']}")
    for name in ("ideas", "trials", "tokens"):
        counts = ", ".join(f"{count} {what}" for what, count in found[name].items())
        click.echo(f"{name:8}{counts}")
    click.echo(f"{'hours':8}{found['cpu_hours']:.3f} CPU, {found['gpu_hours']:.3f} GPU")


@click.command()
@run_directory
def cancel(directory: Path) -> None:
    """Stop the campaign in DIR and leave nothing running; it can be resumed."""
    paths = RunPaths(directory.absolute())
    alive = cancelling.cancel(paths)
    was = "stopped" if alive else "was not running; nothing of it is left on this machine"
    click.echo(f"{paths.root}: {was}", err=True)
