"""End all jobs of a campaign, whichever driver submitted them, and wait until they are gone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

from hpcscientist.errors import SchedulerRefused, SchedulerSilent
from hpcscientist.execution.backends.slurm import commands
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.watching.queue import QueueRow, queued
from hpcscientist.execution.backends.slurm.watching.states import Phase

PATIENCE_S = 180.0
_POLL_S = 1.0
_PER_CALL = 200


def live_jobs(slurm: Slurm, campaign_id: str) -> list[QueueRow]:
    """Return the queue's rows of the campaign that have not ended. Raises SchedulerError."""
    return [row for row in queued(slurm, campaign_id) if row.phase is not Phase.ENDED]


def controllers(rows: Iterable[QueueRow], campaign_id: str) -> list[QueueRow]:
    """Return the rows that are the campaign's controller jobs."""
    wanted = commands.CONTROLLER
    return [
        row for row in rows if commands.batch_of_job(campaign_id, row.name, row.comment) == wanted
    ]


def cancel_jobs(slurm: Slurm, ids: Iterable[str]) -> None:
    """Ask Slurm to end jobs; jobs that have already ended are no error.

    Raises SchedulerSilent.
    """
    todo = sorted(set(ids))
    for start in range(0, len(todo), _PER_CALL):
        with contextlib.suppress(SchedulerRefused):
            slurm.run("scancel", "--quiet", *todo[start : start + _PER_CALL])


def end_jobs(slurm: Slurm, ids: Iterable[str], patience_s: float = PATIENCE_S) -> None:
    """End jobs and wait until they have ended. Raises SchedulerSilent if they do not end."""
    wanted = set(ids)
    if not wanted:
        return
    cancel_jobs(slurm, wanted)
    until = time.monotonic() + patience_s
    while left := {r.job_id for r in queued(slurm) if r.phase is not Phase.ENDED} & wanted:
        if time.monotonic() > until:
            raise SchedulerSilent(f"{len(left)} jobs are still in the queue")
        time.sleep(_POLL_S)


def end_arrays(slurm: Slurm, campaign_id: str) -> None:
    """End a campaign's arrays, but not its controllers, and wait until they have ended.

    Arrays are found by name or comment, since an array's id is unknown if the answer of `sbatch`
    was lost. Raises SchedulerSilent.
    """
    rows = live_jobs(slurm, campaign_id)
    driving = {row.job_id for row in controllers(rows, campaign_id)}
    end_jobs(slurm, {row.job_id for row in rows} - driving)


def sweep_jobs(
    slurm: Slurm,
    campaign_id: str,
    patience_s: float = PATIENCE_S,
    wait: Callable[[float], object] = time.sleep,
) -> int:
    """End all jobs of a campaign and wait until they have ended; return how many there were.

    An array counts as one job. Raises SchedulerSilent if Slurm does not answer or jobs are still in
    the queue after `patience_s`.
    """
    ended: set[str] = set()
    until = time.monotonic() + patience_s
    while True:
        try:
            rows = live_jobs(slurm, campaign_id)
            ids = {row.job_id for row in rows}
            cancel_jobs(slurm, ids)
            ended |= ids
            if not ids:
                return len(ended)
            left = f"{len(ids)} jobs of {campaign_id} are still in the queue"
        except SchedulerSilent as error:
            left = str(error)
        if time.monotonic() > until:
            raise SchedulerSilent(f"{left}; run `hpcsci cancel` again when Slurm answers")
        wait(_POLL_S)
