"""Rounds: one squeue for everything that is live, applied to the ledger.

A task ends in the ledger if squeue or accounting says so, or if Slurm does not know it in two
consecutive answers (the controller has purged it, and there is no accounting). If the controller
does not answer, nothing changes. Accounting is asked in a task of its own. If it stays silent,
tasks that left the queue count as lost after a while.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hpcscientist.errors import SchedulerRefused
from hpcscientist.execution.backends.slurm import commands
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.watching.accounting import Accounting, Missing
from hpcscientist.execution.backends.slurm.watching.ledger import (
    ArrayTask,
    BatchLedger,
    LiveBatch,
    loop_time,
)
from hpcscientist.execution.backends.slurm.watching.queue import (
    AccountRow,
    QueueRow,
    queue_table,
)
from hpcscientist.execution.backends.slurm.watching.states import (
    Phase,
    cause,
    is_held_by_slurm,
    patience_s,
)
from hpcscientist.records.trial import EndState

# A single answer may come from a controller that is just starting. Accounting learns of an end some
# seconds after the controller forgets the job, and of some ends never.
ABSENCES, LAGS = 2, 6
# After so many tables in a row with unreadable lines, assume a job with an odd name.
UNREAD = 10
HOPELESS = 3

# The rows of squeue by batch and job: a batch has two jobs if sbatch created it twice.
_Mine = Mapping[str, Mapping[str, list[QueueRow]]]


@dataclass(slots=True)
class RoundBackoff:
    """When the next round is due: soon after a submission, then less and less often. Seconds."""

    shortest: float
    longest: float
    interval: float = 0.0
    due: float = 0.0

    def begin(self, now: float) -> None:
        """Schedule the first round soon, after a submission to an empty queue."""
        self.interval, self.due = self.shortest, now + self.shortest

    def done(self, now: float) -> None:
        """Schedule the next round later. Files show good ends, so only trouble waits for it."""
        self.interval = min(max(self.interval, self.shortest) * 1.5, self.longest)
        self.due = now + self.interval

    def hurry(self, now: float, within_s: float) -> None:
        """Make the next round due within `within_s` seconds."""
        self.due = min(self.due, now + within_s)


@dataclass(slots=True)
class Findings:
    """What a round found. `void`: batches that were never submitted.

    `lost`: how many tasks count as lost because accounting stayed silent.
    """

    changed: bool = False
    others: int = 0  # the user's tasks in the queue that are not this campaign's
    void: list[LiveBatch] = field(default_factory=list)
    hopeless: list[tuple[LiveBatch, str]] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)
    unwanted: list[str] = field(default_factory=list)  # jobs to end: held by Slurm, or duplicates
    lost: int = 0

    def raise_if_hopeless(self) -> None:
        """Raise SchedulerRefused if an array waits that Slurm will never run."""
        for live, reason in self.hopeless:
            raise SchedulerRefused(
                f"Slurm will never run array {live.job_id}: {reason}; ask for less or for "
                "something else (site profile, --partition, --account, --qos) and run "
                "`hpcsci resume`"
            )


class Rounds:
    """Asks Slurm and updates the ledger.

    `believe` gets the tasks that squeue does not list, before accounting is asked about them. It
    ends those whose trials have all left results. `silence_s`: if accounting does not answer for so
    many seconds, a task that left the queue is lost.
    """

    def __init__(
        self,
        slurm: Slurm,
        ledger: BatchLedger,
        campaign_id: str,
        *,
        accounting: Accounting,
        believe: Callable[[LiveBatch, ArrayTask], object],
        silence_s: float,
    ) -> None:
        self._slurm, self._ledger, self._campaign_id = slurm, ledger, campaign_id
        self._accounting, self._believe, self._silence_s = accounting, believe, silence_s
        self._missing: Missing = {}
        self._unread = 0

    async def ask(self, has_accounting: bool) -> Findings:
        """Make one round. Raises SchedulerError when squeue fails."""
        table = await asyncio.to_thread(queue_table, self._slurm)
        self._unread = self._unread + 1 if table.unread else 0
        found = Findings()
        mine = self._sort(table.rows, found)
        # The controller waits for its trials, so it never makes room for them.
        is_busy = any(
            row.phase is Phase.RUNNING and not self._is_controller(row) for row in table.rows
        )
        self._missing = {}
        for live in self._ledger.batches:
            _confirm(live, mine.get(live.batch.batch_id, {}), found)
            rows = mine.get(live.batch.batch_id, {}).get(live.job_id or "", [])
            _apply(live, rows, found, is_busy)
            missing = _missing(live, rows)
            for task in missing:
                self._believe(live, task)
            left = [task for task in missing if task.cause is None]
            for task in left:
                task.missed_at = loop_time() if task.missed_at is None else task.missed_at
            if left:
                self._missing[live] = left
        if not self._missing or 0 < self._unread < UNREAD:
            return found  # a missing task may be in an unreadable line
        if has_accounting:
            self._accounting.ask(self._missing)
            self._give_up(found)
        else:
            _settle_all(self._missing, [], found)
        return found

    def heed_accounting(self) -> Findings | None:
        """Apply an answer of accounting to the ledger; None if there is no new answer."""
        answered = self._accounting.take()
        if answered is None:
            return None
        found = Findings()
        still = {
            live: [task for task in tasks if task in self._missing.get(live, ())]
            for live, tasks in answered.missing.items()
            if live in self._missing
        }
        _settle_all(still, answered.rows, found)
        return found

    def _give_up(self, found: Findings) -> None:
        """Mark tasks as lost if accounting has been silent about them for `silence_s`."""
        silent = self._accounting.silent_since
        if silent is None:
            return
        limit = loop_time() - self._silence_s
        late = {
            live: [task for task in tasks if max(silent, task.missed_at or silent) <= limit]
            for live, tasks in self._missing.items()
        }
        for live, tasks in late.items():
            found.lost += len(tasks)
            _lose(live, tasks, found)

    def _is_controller(self, row: QueueRow) -> bool:
        return (
            commands.batch_of_job(self._campaign_id, row.name, row.comment) == commands.CONTROLLER
        )

    def _sort(self, rows: Iterable[QueueRow], found: Findings) -> _Mine:
        """Return the campaign's rows by batch and job; count all other jobs and tasks."""
        mine: dict[str, dict[str, list[QueueRow]]] = {}
        controllers = 0
        for row in rows:
            name = commands.batch_of_job(self._campaign_id, row.name, row.comment)
            controllers += name == commands.CONTROLLER and row.phase is not Phase.ENDED
            if name is None or name == commands.CONTROLLER:
                found.others += _size(row) if row.phase is not Phase.ENDED else 0
            else:
                mine.setdefault(name, {}).setdefault(row.job_id, []).append(row)
        if controllers == 1:
            found.others += 1  # reserve a place for the controller's successor
        return mine


def _size(row: QueueRow) -> int:
    return sum(len(part) for part in row.tasks) or 1


def _confirm(live: LiveBatch, jobs: Mapping[str, list[QueueRow]], found: Findings) -> None:
    """Confirm or correct a batch's job id by the queue, and mark duplicates to be ended."""
    if not jobs:
        return
    if live.job_id not in jobs:  # sbatch's answer was lost, or its id was a number in a notice
        _is_really(live, min(jobs, key=lambda job: (not _goes_on(jobs[job]), int(job))))
        found.changed = True
    live.confirmed = True
    found.unwanted += [job for job in jobs if job != live.job_id and _goes_on(jobs[job])]


def _goes_on(rows: Iterable[QueueRow]) -> bool:
    return any(row.phase is not Phase.ENDED for row in rows)


def _is_really(live: LiveBatch, job: str) -> None:
    live.job_id = job
    with contextlib.suppress(OSError):  # without the file, its name still finds it
        live.folder.write_job_id(job)


def _apply(live: LiveBatch, rows: list[QueueRow], found: Findings, is_busy: bool) -> None:
    """Update a batch's tasks from its rows of squeue."""
    waiting: dict[str, float | None] = {}
    for row in rows:
        for number in _numbers(row, live) or _rest(row, rows, live):
            task = live.tasks[number]
            if task.cause is not None:
                continue
            task.absences, task.missed_at = 0, None
            found.changed |= task.state != row.state
            task.phase, task.state = row.phase, row.state
            task.node = row.node or task.node
            task.reason = row.reason
            if is_held_by_slurm(row.state, row.reason):
                found.unwanted.append(f"{live.job_id}_{number}")
                task.end(EndState.NODE_FAIL, row.state)
            elif row.phase is Phase.WAITING:
                if task.started:
                    task.message = 0  # queued again: nobody knows when it goes on
                waiting[row.reason] = patience_s(row.reason, row.partition, is_busy)
            elif row.phase is Phase.ENDED:
                task.end(cause(row.state), row.state)
    found.reasons |= set(waiting)
    never = sorted((limit, reason) for reason, limit in waiting.items() if limit is not None)
    if not never:
        live.hopeless = 0
        return
    live.hopeless += 1
    live.hopeless_at = loop_time() if live.hopeless == 1 else live.hopeless_at
    limit, reason = never[0]
    if live.hopeless >= HOPELESS and loop_time() - live.hopeless_at >= limit:
        found.hopeless.append((live, reason))


def _numbers(row: QueueRow, live: LiveBatch) -> list[int]:
    return [n for part in row.tasks for n in part if n < len(live.tasks)]


def _rest(row: QueueRow, rows: list[QueueRow], live: LiveBatch) -> list[int]:
    """Return the tasks that a row without numbers covers: those that ended before they began."""
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


def _settle_all(missing: Missing, rows: list[AccountRow], found: Findings) -> None:
    for live, tasks in missing.items():
        _settle(live, tasks, rows, found)


def _settle(
    live: LiveBatch, missing: list[ArrayTask], rows: list[AccountRow], found: Findings
) -> None:
    """End tasks by accounting's rows, or because Slurm no longer knows them."""
    named = [row.job_id for row in rows if _is_named_as(row, live)]
    if named and live.job_id not in named:
        _is_really(live, named[0])
    live.confirmed |= bool(named)
    known = {
        row.task: row for row in rows if row.job_id == live.job_id and not _is_another(row, live)
    }
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
    _lose(live, gone, found)


def _lose(live: LiveBatch, gone: list[ArrayTask], found: Findings) -> None:
    """Mark tasks as lost; a batch without a job id was never submitted."""
    if not gone:
        return
    found.changed = True
    if live.job_id is None:
        found.void.append(live)
        return
    for task in gone:
        task.end(EndState.LOST, "UNKNOWN")


def _is_named_as(row: AccountRow, live: LiveBatch) -> bool:
    batch = live.batch
    return commands.batch_of_job(batch.campaign_id, row.name, row.comment) == batch.batch_id


def _is_another(row: AccountRow, live: LiveBatch) -> bool:
    """Return whether a row's name shows that it is another job's.

    If accounting learned of a job's end before its start, the name is "allocation".
    """
    return row.name not in ("", "allocation") and not _is_named_as(row, live)
