"""Campaigns that a job drives: the job's own hidden command, and following it from elsewhere."""

from __future__ import annotations

import shlex
import signal
import traceback
from pathlib import Path

import click

from hpcscientist.cli.shared.options import run_directory
from hpcscientist.cli.shared.progress import Progress
from hpcscientist.cli.shared.signals import unwind_on
from hpcscientist.errors import HpcsciError, Interrupted, UsageError
from hpcscientist.execution.backends.slurm.jobs.controller_job import leave_job
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import printable
from hpcscientist.history import frozen
from hpcscientist.history.state import CampaignState
from hpcscientist.launching.jobs.controller import control
from hpcscientist.launching.jobs.dispatch import dispatch, open_slurm
from hpcscientist.launching.jobs.follow import Follower


class Detached(Interrupted):
    """Whoever followed has gone; the campaign goes on."""


@click.command(hidden=True)
@run_directory
def controller(directory: Path) -> int:
    """Drive the campaign in DIR from within its controller job."""
    # Until the driver takes them over: stopped while waiting, a continuation is still seen to.
    unwind_on(signal.SIGUSR1, signal.SIGTERM)
    own = leave_job()
    paths = RunPaths(directory.absolute())
    if not own:
        raise UsageError(f"this is what the controller job runs; use `hpcsci resume {paths.root}`")
    try:
        control(paths, own, Progress(), _tell)
    except (Interrupted, KeyboardInterrupt) as stop:
        _tell(str(stop) or "stopped before it drove the campaign")  # no failure of the job's
    except HpcsciError:
        raise
    except Exception:
        traceback.print_exc()
        raise
    return 0


def drive_by_job(paths: RunPaths, *, detach: bool) -> CampaignState | None:
    """Have the campaign driven by a job and follow that to its end; None where it was left alone.

    Raises Detached on Ctrl-C, and what `dispatch` and `Follower.follow` raise.
    """
    follower = Follower(paths, Progress(), _tell)
    # Before the job is submitted: what is in the journal already is no news of that job.
    if follower.catch_up().ended:
        return follower.state
    config = frozen.read(paths)
    slurm = open_slurm(config)
    unwind_on(signal.SIGTERM, signal.SIGHUP)
    left = "interrupted; if its job was submitted by then, the campaign goes on"
    try:
        job_id, fresh = dispatch(paths, config, slurm, _tell)
        left = "detached, and the campaign goes on"
        if detach:
            click.echo(job_id)
            _tell(f"job {job_id} drives the campaign; {_commands(paths)}")
            return None
        _tell(f"job {job_id} {'drives the campaign' if fresh else 'drives this campaign already'}")
        _tell("Ctrl-C leaves it alone: it goes on")
        return follower.follow(slurm, config.campaign_id, job_id)
    except KeyboardInterrupt as error:
        raise Detached(f"{left}; {_commands(paths)}") from error


def _commands(paths: RunPaths) -> str:
    where = shlex.quote(str(paths.root))
    return (
        f"follow it: `hpcsci resume {where}`, look: `hpcsci status {where}`, "
        f"stop it: `hpcsci cancel {where}`"
    )


def _tell(text: str) -> None:
    for line in text.splitlines():
        click.echo(printable(line), err=True)
