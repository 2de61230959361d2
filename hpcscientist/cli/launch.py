"""`hpcsci launch` and `hpcsci resume`."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from typing import Any

import click

from hpcscientist.campaign import launch as launching
from hpcscientist.campaign.drive import drive
from hpcscientist.campaign.state import CampaignState
from hpcscientist.campaign.status import read_state
from hpcscientist.cli.options import run_directory, settings_from
from hpcscientist.cli.progress import Progress, header
from hpcscientist.cli.results import print_results
from hpcscientist.config.layers import default_private_root
from hpcscientist.errors import BaselineFailed
from hpcscientist.files import sealed
from hpcscientist.files.rundir import RunPaths

NOTHING_SCORED = 3


@click.command()
@click.option("--recipe", metavar="R", help="A recipe's name or folder [quickstart: digits].")
@click.option("--ideas", type=int, metavar="N", help="How many ideas to propose.")
@click.option("--rounds", type=int, metavar="K", help="A barrier after each N/K ideas.")
@click.option(
    "--model", metavar="SPEC", help="http://HOST:PORT/v1#NAME, playbook[:FILE] or search."
)
@click.option("--backend", type=click.Choice(["auto", "local"]), help="What runs the trials.")
@click.option("--seed", type=int, metavar="N", help="The campaign's seed.")
@click.option("--run-dir", metavar="DIR", help="The campaign's folder [a new one in scratch/].")
@click.option("--dry-run", is_flag=True, help="Show what would be run, and touch nothing.")
@click.option(
    "--allow-unsandboxed",
    is_flag=True,
    default=None,
    help="Run generated code although there is no sandbox.",
)
def launch(dry_run: bool, **options: Any) -> int:
    """Start a campaign and follow it to its end."""
    # Until the driver takes signals over, SIGTERM unwinds like Ctrl-C: nothing half made stays.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = settings_from(**options)
    sealed.use_root(default_private_root(settings))
    plan = launching.plan(settings, Path.cwd())
    if dry_run:
        header(plan)
        return 0
    claimed = launching.claim(plan)
    header(plan)
    launching.furnish(plan, claimed)
    paths = claimed.paths
    try:
        state = drive(paths, Progress())
    except BaselineFailed:
        # It cannot go on, for the recipe in it is frozen. What was paid for is kept.
        if not plan.is_paid:
            claimed.undo()
        raise
    return _finish(paths, state)


@click.command()
@run_directory
def resume(directory: Path) -> int:
    """Go on with the campaign in DIR, whatever interrupted it."""
    paths = RunPaths(directory.absolute())
    read_state(paths)
    sealed.use_root(default_private_root(settings_from()))
    return _finish(paths, drive(paths, Progress()))


def _finish(paths: RunPaths, state: CampaignState) -> int:
    print_results(paths, "table")
    click.echo(f"results: hpcsci results {shlex.quote(str(paths.root))}", err=True)
    return 0 if state.scored_an_idea() else NOTHING_SCORED
