"""Ending what callers gave up: one scancel for all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.ledger import Entry, Ledger
from hpcscientist.execution.backends.slurm.sweep import cancel_jobs


class Stops:
    """Entries whose array tasks are to be ended; true while there are some."""

    def __init__(self, slurm: Slurm, ledger: Ledger) -> None:
        self._slurm, self._ledger = slurm, ledger
        self._asked: list[Entry] = []

    def __bool__(self) -> bool:
        return bool(self._asked)

    def add(self, entries: Iterable[Entry]) -> None:
        """Have these ended at the next `carry_out`."""
        self._asked.extend(entries)

    async def carry_out(self) -> None:
        """Cancel the tasks that were not yet, and forget the entries that are gone.

        Raises SchedulerSilent; ask again then.
        """
        self._asked = [entry for entry in self._asked if not entry.gone.is_set()]
        asked = {id(entry) for entry in self._asked}
        ids: list[str] = []
        new = []
        for live in self._ledger.batches:
            stopping = [
                task
                for task in live.live_tasks()
                if any(id(entry) in asked for _, entry in task.remaining())
            ]
            fresh = [task for task in stopping if not task.stopping]
            if live.job_id is None or not fresh:
                continue
            new += fresh
            if len(stopping) == len(live.live_tasks()):
                ids.append(live.job_id)
            else:
                ids.append(f"{live.job_id}_[{','.join(str(task.number) for task in fresh)}]")
        if ids:
            await asyncio.to_thread(cancel_jobs, self._slurm, ids)
        for task in new:  # only now: what a silent Slurm did not hear is asked again
            task.stopping = True
