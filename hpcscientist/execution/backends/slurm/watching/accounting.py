"""Ask sacct in a task of its own, so that a slow or silent slurmdbd does not delay the backend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass

from hpcscientist.errors import SchedulerRefused, SchedulerSilent
from hpcscientist.execution.backends.slurm import commands
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.watching.ledger import ArrayTask, LiveBatch, loop_time
from hpcscientist.execution.backends.slurm.watching.queue import (
    AccountRow,
    accounted,
    accounted_by_name,
)

# Seconds until accounting is asked again after it did not answer: at first, and at most.
_SOON_S, _LATE_S = 5.0, 120.0

Missing = dict[LiveBatch, list[ArrayTask]]


@dataclass(frozen=True, slots=True)
class AccountingAnswer:
    """Accounting's answer: its rows, and the tasks that it was asked about."""

    missing: Missing
    rows: list[AccountRow]


class Accounting:
    """Asks accounting how array tasks ended that left the queue; one query at a time.

    `wake` is called when a query has ended. `silent_since` is when the first unanswered query
    began, by the backend's clock; None while accounting answers.
    """

    def __init__(self, slurm: Slurm, campaign_id: str, wake: Callable[[], object]) -> None:
        self._slurm, self._campaign_id, self._wake = slurm, campaign_id, wake
        self._asking: asyncio.Task[list[AccountRow] | None] | None = None
        self._about: Missing = {}
        self._due, self._pause_s = 0.0, _SOON_S
        self.silent_since: float | None = None
        self.said = ""  # why it is silent

    def ask(self, missing: Missing) -> None:
        """Ask, unless a query is under way or accounting has just not answered."""
        if self._asking is None and loop_time() >= self._due:
            self._about = {live: list(tasks) for live, tasks in missing.items()}
            self._asking = asyncio.create_task(self._answer(loop_time()))
            self._asking.add_done_callback(lambda task: self._wake())

    def take(self) -> AccountingAnswer | None:
        """Return the answer of a query that has ended; None if there is none."""
        if self._asking is None or not self._asking.done():
            return None
        asking, self._asking = self._asking, None
        rows = asking.result()
        return None if rows is None else AccountingAnswer(self._about, rows)

    async def close(self) -> None:
        """Stop asking. A command that is under way ends by itself."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})
            self._asking = None

    async def _answer(self, now: float) -> list[AccountRow] | None:
        try:
            rows = await asyncio.to_thread(self._ask, list(self._about))
        except SchedulerSilent as error:
            self.said = str(error)
            self.silent_since = now if self.silent_since is None else self.silent_since
            self._due = loop_time() + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LATE_S)
            return None
        except SchedulerRefused:
            rows = []  # accounting is not available after all
        self.silent_since, self._pause_s = None, _SOON_S
        return rows

    def _ask(self, unseen: Collection[LiveBatch]) -> list[AccountRow]:
        rows = accounted(self._slurm, {live.job_id for live in unseen if live.job_id is not None})
        nameless = [live for live in unseen if not live.confirmed]
        if nameless:
            names = {commands.job_name(self._campaign_id, one.batch.batch_id) for one in nameless}
            since_s = min(live.batch.created_at for live in nameless) - 60
            rows += accounted_by_name(self._slurm, names, since_s)
        return rows
