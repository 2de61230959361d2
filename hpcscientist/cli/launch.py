"""`hpcsci launch` and `hpcsci resume`."""

from __future__ import annotations

import resource
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import psutil

from hpcscientist import api
from hpcscientist.cli.results import print_table
from hpcscientist.cli.shared.costs import details
from hpcscientist.cli.shared.options import (
    other_site,
    run_directory,
    settings_from,
    site_options,
    unwind_on,
)
from hpcscientist.cli.shared.progress import ProgressPrinter, header, status_line
from hpcscientist.config.layers import default_data_root, default_private_root
from hpcscientist.config.settings import SlurmOverrides
from hpcscientist.errors import UsageError
from hpcscientist.files import vault
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.launching import launch as launching
from hpcscientist.launching.costs import estimate as costs
from hpcscientist.launching.jobs.dispatch import is_controlled
from hpcscientist.launching.launch import change_site
from hpcscientist.launching.launch_plan import check, scripts
from hpcscientist.ports import Embedder
from hpcscientist.recipe import folder_copy


@contextmanager
def share_shown(on: bool = True) -> Iterator[None]:
    """Print on stderr, at the end, how much CPU and memory this process and its children used.

    Login nodes are shared, so users should see this.
    """
    try:
        yield
    finally:
        if on:
            click.echo(statement(), err=True)


def statement() -> str:
    """Return the CPU time of this process, its share of one core, and its peak memory, as text.

    The CPU time includes that of ended child processes. The peak is that of the largest process.
    """
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    wall_s = max(time.time() - psutil.Process().create_time(), 0.001)
    # In KiB on Linux. Not summed: a child's peak includes its parent's memory at the fork.
    peak_mb = max(own.ru_maxrss, ended.ru_maxrss) / 1024
    return (
        f"this machine: {cpu_s:.1f} s of CPU in {wall_s:.0f} s, {100 * cpu_s / wall_s:.1f} % of "
        f"one core; peak memory {peak_mb:.0f} MiB"
    )


NOTHING_SCORED = 3


@click.command()
@click.option("--recipe", metavar="R", help="A recipe's name or folder [quickstart: digits].")
@click.option("--setup", metavar="NAME", help="One of the recipe's setups, such as published.")
@click.option(
    "--data", metavar="FOLDER", help="Data files for the recipe that no package contains."
)
@click.option("--ideas", type=int, metavar="N", help="How many ideas to propose.")
@click.option("--rounds", type=int, metavar="K", help="Split the ideas into K rounds.")
@click.option(
    "--model",
    metavar="SPEC",
    help="vllm:PATH, http://HOST:PORT/v1#NAME, playbook[:FILE] or search.",
)
@click.option(
    "--control",
    type=float,
    metavar="SHARE",
    help="Share of ideas from a search over the recipe's knobs, for comparison [0].",
)
@click.option(
    "--backend",
    metavar="auto|local|slurm|NAME",
    help="Where trials run [auto].",
)
@site_options
@click.option("--library", metavar="DIR", help="Ground ideas in this library of papers and code.")
@click.option(
    "--mode",
    type=click.Choice(["auto", "guided", "open", "follow-up"]),
    help="Where ideas come from [auto: guided with --instruction, else open].",
)
@click.option("--instruction", metavar="TEXT", help="What ideas should be about.")
@click.option(
    "--decision",
    type=click.Choice(["fdr", "point"]),
    help="What counts as an improvement: a test over seeds, or any better mean [fdr].",
)
@click.option("--nodes", type=int, metavar="N", help="Run the driver in a Slurm job of N nodes.")
@click.option("--detach", is_flag=True, help="With --nodes: return once the job is submitted.")
@click.option("--seed", type=int, metavar="N", help="The campaign's seed.")
@click.option("--run-dir", metavar="DIR", help="The campaign's folder [a new one in scratch/].")
@click.option("--dry-run", is_flag=True, help="Show what would run; change nothing.")
@click.option(
    "--allow-unsandboxed",
    is_flag=True,
    default=None,
    help="Run generated code without a sandbox.",
)
def launch(dry_run: bool, detach: bool, **options: Any) -> int:
    """Start a campaign and follow it to its end."""
    unwind_on(signal.SIGTERM, signal.SIGHUP)  # until the driver handles these signals itself
    settings = settings_from(**options)
    vault.use_root(default_private_root(settings))
    checked = launching.check(settings, Path.cwd())
    if detach and not settings.nodes:
        raise UsageError("--detach needs --nodes N: only a Slurm job goes on without this command")
    if dry_run:
        header(checked)
        for line in details(costs.estimate(checked)):
            click.echo(f"{'':8} {line}", err=True)
        for purpose, script in scripts(checked).items():
            click.echo(f"# {purpose}\n{script}")
        return 0
    check(checked)
    with share_shown(checked.placement.backend == "slurm"):
        return api.begin(
            checked,
            lambda paths: _go_on(paths, detach=detach, embedder=checked.embedder),
            lambda: header(checked),
        )


@click.command()
@run_directory
@click.option("--detach", is_flag=True, help="Return once the job is submitted.")
@other_site
def resume(directory: Path, detach: bool, site: str, **words: str) -> int:
    """Resume the campaign in DIR after any interruption, or follow the job that drives it."""
    unwind_on(signal.SIGTERM, signal.SIGHUP)  # until the driver handles these signals itself
    paths = RunPaths(directory.absolute())
    if site or any(words.values()):
        change_site(paths, site, SlurmOverrides(**words), Path.cwd())
    config = frozen.read(paths)
    if detach and not is_controlled(config):
        raise UsageError(f"{paths.root}: no job drives this campaign; leave --detach out")
    settings = settings_from()
    folder_copy.clear_staging(default_data_root(settings), default_private_root(settings))
    with share_shown(config.backend == "slurm"):
        return _go_on(paths, detach=detach)


def _go_on(paths: RunPaths, *, detach: bool, embedder: Embedder | None = None) -> int:
    """Drive a campaign to its end, here or in a Slurm job, and print its results."""
    told = click.echo if detach else None
    with ProgressPrinter(None if detach else status_line(paths)) as progress:
        state = api.go_on(paths, progress, progress.tell, detach=told, embedder=embedder)
    if not state.ended:  # a Slurm job continues to drive it
        return 0
    click.echo(f"results: hpcsci results {shlex.quote(str(paths.root))}", err=True)
    print_table(paths, str(paths.root))
    return 0 if state.scored_an_idea() else NOTHING_SCORED
