"""`hpcsci watch`."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

from hpcscientist.cli.shared.options import run_directory
from hpcscientist.files.rundir import RunPaths
from hpcscientist.report.live import screen
from hpcscientist.views.live import LiveFollower


@click.command()
@run_directory
@click.option(
    "--every", metavar="S", type=click.FloatRange(min=0.2), default=1.0, show_default=True
)
@click.option("--once", is_flag=True, help="Print the current view once and exit.")
def watch(directory: Path, every: float, once: bool) -> None:
    """Watch the campaign in DIR until it ends or you press Ctrl-C; the campaign runs on.

    This command only reads files, so any number of people can watch. Without a terminal it
    prints the current view once.
    """
    follower = LiveFollower(RunPaths(directory.absolute()))
    console = Console(markup=False, emoji=False, highlight=False)
    shot = follower.look()
    if once or not console.is_terminal or console.is_dumb_terminal:
        console.print(screen(shot, console.width, 1000), soft_wrap=True)
        return
    with (
        contextlib.suppress(KeyboardInterrupt),
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while True:
            live.update(screen(shot, console.width, console.height), refresh=True)
            if shot.state == "finished":
                break
            time.sleep(every)
            shot = follower.look()
    console.print(screen(shot, console.width, console.height))
