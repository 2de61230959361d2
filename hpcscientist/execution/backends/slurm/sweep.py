"""Ending every job of a campaign, whoever submitted it, and waiting until the queue has none."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

from hpcscientist.errors import SchedulerRefused, SchedulerSilent
from hpcscientist.execution.backends.slurm import naming
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.watching.ledger import Phase
from hpcscientist.execution.backends.slurm.watching.queue import QueueRow, queued

PATIENCE_S = 180.0
_POLL_S = 1.0
_PER_CALL = 200


def live_jobs(slurm: Slurm, campaign_id: str) -> list[QueueRow]:
    """Return the campaign's rows of the queue that have not ended. Raises SchedulerError."""
    return [row for row in queued(slurm, campaign_id) if row.phase is not Phase.ENDED]


def controllers(rows: Iterable[QueueRow], campaign_id: str) -> list[QueueRow]:
    """Return the rows that are the campaign's controller jobs."""
    wanted = naming.CONTROLLER
    return [row for row in rows if naming.marked(campaign_id, row.name, row.comment) == wanted]


def cancel_jobs(slurm: Slurm, ids: Iterable[str]) -> None:
    """Ask Slurm to end jobs; ones that have ended meanwhile are no error.

    Raises SchedulerSilent.
    """
    todo = sorted(set(ids))
    for start in range(0, len(todo), _PER_CALL):
        with contextlib.suppress(SchedulerRefused):
            slurm.run("scancel", "--quiet", *todo[start : start + _PER_CALL])


def end_jobs(slurm: Slurm, ids: Iterable[str], patience_s: float = PATIENCE_S) -> None:
    """End jobs and wait for their end. Raises SchedulerSilent when they do not end."""
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
    """End a campaign's arrays, and wait for their end; its controllers go on.

    They are looked for by their marks: where `sbatch` was not heard, an id is not known. Raises
    SchedulerSilent.
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
    """End every job of a campaign and wait for the end; return how many array ids there were.

    Raises SchedulerSilent when Slurm does not answer, or when jobs are still there after
    `patience_s`.
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
