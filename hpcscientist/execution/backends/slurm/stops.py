"""Ending what was given up: one scancel for all of it."""

from __future__ import annotations

import asyncio

from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.jobs.sweep import cancel_jobs
from hpcscientist.execution.backends.slurm.watching.ledger import ArrayTask, Ledger


class Stops:
    """Array tasks that are to be ended, those with trials that nobody wants; true while any are."""

    def __init__(self, slurm: Slurm, ledger: Ledger) -> None:
        self._slurm, self._ledger = slurm, ledger

    def __bool__(self) -> bool:
        return any(_is_unwanted(task) for live in self._ledger.batches for task in live.tasks)

    async def carry_out(self) -> None:
        """Cancel the tasks that were not yet. Raises SchedulerSilent; ask again then."""
        ids: list[str] = []
        new = []
        for live in self._ledger.batches:
            stopping = [task for task in live.live_tasks() if _is_unwanted(task)]
            fresh = [task for task in stopping if not task.stopping]
            if live.job_id is None or not live.confirmed or not fresh:
                continue  # nothing is ended by an id that may be another job's
            new += fresh
            if len(stopping) == len(live.live_tasks()):
                ids.append(live.job_id)
            else:
                ids.append(f"{live.job_id}_[{','.join(str(task.number) for task in fresh)}]")
        if ids:
            await asyncio.to_thread(cancel_jobs, self._slurm, ids)
        for task in new:  # only now: what a silent Slurm did not hear is asked again
            task.stopping = True


def _is_unwanted(task: ArrayTask) -> bool:
    return bool(task.unwanted - task.over)
