"""A round: at most one squeue and one sacct for everything that is live, applied to the ledger.

A task ends in the ledger when squeue or sacct says so, or when Slurm, asked twice, knows
nothing of it any more (purged from the controller's memory, and no accounting). A controller
that does not answer changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from hpcscientist.errors import SchedulerRefused, SchedulerSilent
from hpcscientist.execution.backends.slurm import naming
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.watching.ledger import ArrayTask, Ledger, LiveBatch
from hpcscientist.execution.backends.slurm.watching.queue import (
    AccountRow,
    QueueRow,
    accounted,
    accounted_by_name,
    queue_table,
)
from hpcscientist.execution.backends.slurm.watching.states import (
    Phase,
    can_never_run,
    cause,
    is_held_by_slurm,
)
from hpcscientist.records.runs import EndState

# One answer may be a controller's that is just coming up. Accounting hears of an end some seconds
# later than the controller forgets it, and of some never.
ABSENCES, LAGS = 2, 6
# Lines that cannot be read as often in a row are no accident: some job has an odd name.
UNREAD = 10
HOPELESS = 3


@dataclass(slots=True)
class Backoff:
    """When the next round is due: soon after something happened, then ever later. Seconds."""

    shortest: float
    longest: float
    interval: float = 0.0
    due: float = 0.0

    def begin(self, now: float) -> None:
        """Something was submitted to an empty queue: the first round comes soon."""
        self.interval, self.due = self.shortest, now + self.shortest

    def done(self, now: float) -> None:
        """A round was made. Files tell what ends well, so only trouble has to wait for the next."""
        self.interval = min(max(self.interval, self.shortest) * 1.5, self.longest)
        self.due = now + self.interval

    def hurry(self, now: float, within_s: float) -> None:
        """Make the next round come soon."""
        self.due = min(self.due, now + within_s)


@dataclass(slots=True)
class Findings:
    """What a round found. `void`: batches that were never submitted."""

    changed: bool = False
    others: int = 0  # the user's tasks in the queue that are not this campaign's
    void: list[LiveBatch] = field(default_factory=list)
    hopeless: list[tuple[LiveBatch, str]] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)
    held: list[str] = field(default_factory=list)  # by Slurm: to be cancelled

    def raise_if_hopeless(self) -> None:
        """Raise SchedulerRefused if something waits that Slurm will never run."""
        for live, reason in self.hopeless:
            raise SchedulerRefused(
                f"Slurm will never run array {live.job_id}: {reason}; ask for less or for "
                "something else (site profile, --partition, --account, --qos) and run "
                "`hpcsci resume`"
            )


class Rounds:
    """Asks Slurm and brings the ledger up to date."""

    def __init__(self, slurm: Slurm, ledger: Ledger, campaign_id: str) -> None:
        self._slurm, self._ledger, self._campaign_id = slurm, ledger, campaign_id
        self._unread = 0

    async def ask(self, accounting: bool) -> Findings:
        """Make one round. Raises SchedulerError when squeue fails."""
        table = await asyncio.to_thread(queue_table, self._slurm)
        rows = table.rows
        self._unread = self._unread + 1 if table.unread else 0
        found, controllers = Findings(), 0
        mine: dict[str, list[QueueRow]] = {}
        for row in rows:
            name = naming.marked(self._campaign_id, row.name, row.comment)
            controllers += name == naming.CONTROLLER and row.phase is not Phase.ENDED
            if name is None or name == naming.CONTROLLER:
                found.others += _size(row) if row.phase is not Phase.ENDED else 0
            else:
                mine.setdefault(row.job_id, []).append(row)
        if controllers == 1:
            found.others += 1  # a place for the continuation of the job that drives
        names = {
            naming.marked(self._campaign_id, row.name, row.comment): job
            for job, rows_of_job in mine.items()
            for row in rows_of_job
        }
        for live in self._ledger.batches:
            if live.job_id is None:
                live.job_id = names.get(live.batch.batch_id)
                if live.job_id is not None:
                    with contextlib.suppress(OSError):  # its name finds it again
                        live.folder.write_job_id(live.job_id)
                    found.changed = True
            if live.job_id is not None:
                _apply(live, mine.get(live.job_id, ()), found)
        if not 0 < self._unread < UNREAD:  # what is not there may have been in such a line
            await self._account(mine, accounting, found)
        return found

    async def _account(
        self,
        mine: dict[str, list[QueueRow]],
        accounting: bool,
        found: Findings,
    ) -> None:
        """Settle what squeue does not show."""
        unseen = {
            live: missing
            for live in self._ledger.batches
            if (missing := _missing(live, mine.get(live.job_id or "", ())))
        }
        if not unseen:
            return
        rows: list[AccountRow] = []
        if accounting:
            try:
                rows = await asyncio.to_thread(self._ask_accounting, list(unseen))
            except SchedulerSilent:
                return  # nothing is known: the next round asks again
            except SchedulerRefused:
                rows = []  # no accounting after all
        for live, missing in unseen.items():
            _settle(live, missing, rows, found)

    def _ask_accounting(self, unseen: list[LiveBatch]) -> list[AccountRow]:
        ids = {live.job_id for live in unseen if live.job_id is not None}
        if ids:
            return accounted(self._slurm, ids)
        names = {naming.job_name(self._campaign_id, live.batch.batch_id) for live in unseen}
        return accounted_by_name(
            self._slurm, names, min(live.batch.created_at for live in unseen) - 60
        )


def _size(row: QueueRow) -> int:
    return sum(len(part) for part in row.tasks) or 1


def _apply(live: LiveBatch, rows: Iterable[QueueRow], found: Findings) -> None:
    """Bring a batch's tasks up to date from its rows of squeue."""
    waiting: set[str] = set()
    rows = list(rows)
    for row in rows:
        for number in _numbers(row, live) or _rest(row, rows, live):
            task = live.tasks[number]
            if task.cause is not None:
                continue
            task.absences = 0
            found.changed |= task.state != row.state
            task.phase, task.state = row.phase, row.state
            task.node = row.node or task.node
            task.reason = row.reason
            if is_held_by_slurm(row.state, row.reason):
                found.held.append(f"{live.job_id}_{number}")
                task.end(EndState.NODE_FAIL, row.state)
            elif row.phase is Phase.WAITING:
                waiting.add(row.reason)
            elif row.phase is Phase.ENDED:
                task.end(cause(row.state), row.state)
    found.reasons |= waiting
    never = sorted(reason for reason in waiting if can_never_run(reason))
    live.hopeless = live.hopeless + 1 if never else 0
    if live.hopeless >= HOPELESS:
        found.hopeless.append((live, never[0]))


def _numbers(row: QueueRow, live: LiveBatch) -> list[int]:
    return [n for part in row.tasks for n in part if n < len(live.tasks)]


def _rest(row: QueueRow, rows: list[QueueRow], live: LiveBatch) -> list[int]:
    """Return the tasks that a row without numbers stands for: those that ended unbegun."""
    if row.tasks or row.phase is not Phase.ENDED:
        return []
    return [
        task.number
        for task in _missing(live, rows)
        if task.phase is Phase.WAITING and not task.started
    ]


def _missing(live: LiveBatch, rows: Iterable[QueueRow]) -> list[ArrayTask]:
    seen = {number for row in rows for number in _numbers(row, live)}
    return [task for task in live.live_tasks() if task.number not in seen]


def _settle(
    live: LiveBatch, missing: list[ArrayTask], rows: list[AccountRow], found: Findings
) -> None:
    """End tasks by accounting's word, or because nobody knows them any more."""
    job = live.job_id
    if job is None:  # an array of which it is not known whether it was ever submitted
        job = next((row.job_id for row in rows if _is_of(row, live)), None)
        if job is not None:
            live.job_id = job
            with contextlib.suppress(OSError):
                live.folder.write_job_id(job)
    known = {row.task: row for row in rows if job is not None and row.job_id == job}
    gone = []
    for task in missing:
        row = known.get(task.number) or known.get(None)
        if row is None or row.cause is EndState.LOST:
            task.absences += 1  # unknown, or accounting has not heard of its end yet
            if task.absences >= (ABSENCES if row is None else LAGS):
                gone.append(task)
            continue
        task.node = row.node or task.node
        task.end(row.cause, row.state)
        found.changed = True
    if not gone:
        return
    found.changed = True
    if job is None:
        found.void.append(live)
        return
    for task in gone:
        task.end(EndState.LOST, "UNKNOWN")


def _is_of(row: AccountRow, live: LiveBatch) -> bool:
    batch = live.batch
    return naming.marked(batch.campaign_id, row.name, row.comment) == batch.batch_id
