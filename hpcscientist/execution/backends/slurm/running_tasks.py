"""Assigns short trials to running array tasks, where they begin sooner than in a new array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hpcscientist.execution.backends.slurm.batches import START_S, Message
from hpcscientist.execution.backends.slurm.watching.ledger import (
    ArrayTask,
    BatchLedger,
    LiveBatch,
    loop_time,
)
from hpcscientist.execution.backends.slurm.watching.states import Phase
from hpcscientist.records.trial import Batch, Capacity, Limits, RunId, TrialSpec, run_of

# To start an array task takes about as long: a trial waits no longer for a running one.
_SOON_S = 3.0
# Whoever waited for a task's last trial asks for the next one within this time. After it an idle
# task ends if others wait in the queue: it may hold the place that they wait for.
_IDLE_S = 1.0
_SLACK_S = 2.0  # an idle task may be idle for longer than its files show
_QUICK_S = 0.02


class RunningTasks:
    """The running array tasks that accept further trials."""

    def __init__(self, ledger: BatchLedger) -> None:
        self._ledger = ledger

    def gather_s(self, usual_s: float) -> float:
        """Return how long to gather trials: hardly at all if a running task can begin them."""
        some = any(_soon(task, live.expect_s) for live, task in self._open())
        return min(usual_s, _QUICK_S) if some else usual_s

    def capacity(self, like: TrialSpec, expect_s: float, most: int) -> Capacity | None:
        """Return how many trials like this one running tasks accept; None: a new array is needed.

        If `most` tasks exist, a further one would only wait in the queue. So trials wait here, for
        the first task that becomes free.
        """
        if accepting := self._accepting(like.limits, expect_s):
            room, each = len(accepting), min(_fit(live, task) for live, task in accepting)
            return Capacity(room=room, batch_max=room, at_once=room, each=each, pack_s=_SOON_S)
        if 0 < most <= self._count(like.limits):
            return Capacity(room=0, batch_max=0, at_once=0, pause_s=_SOON_S)
        return None

    def room_for_array(self, found: Capacity, limits: Limits) -> Capacity:
        """Return how many trials a new array may hold beside the running tasks."""
        there = self._count(limits)
        more = max(1, found.at_once - there)
        if not there:
            return found
        return replace(found, room=min(found.room, more), at_once=more, pack_s=_SOON_S)

    def assign(self, batch: Batch) -> list[RunId] | None:
        """Assign a batch to running tasks; return the runs whose tasks ended meanwhile.

        Return None if too few tasks accept trials: the batch needs a new array.
        """
        for live, task in self._open():
            if task.node in batch.avoid:
                _close(live, task)
        accepting = self._accepting(batch.elements[0][0].limits, batch.expect_s)
        if len(accepting) < len(batch.elements):
            return None
        left: list[RunId] = []
        for element in batch.elements:
            runs = tuple(map(run_of, element))
            if not self._write(accepting, Message(batch_id=batch.batch_id, runs=runs)):
                left += runs
        return left

    def close_idle(self) -> None:
        """Close the inboxes of idle tasks if others wait in the queue, perhaps for their places."""
        now, idle = loop_time(), []
        for live, task in self._ledger.tasks():
            if not task.message or not task.started or _todo(task):
                continue
            task.idle_since = now if task.idle_since is None else task.idle_since
            if now - task.idle_since > _IDLE_S:
                idle.append((live, task))
        if idle and any(_waits(task) for _, task in self._ledger.tasks()):
            for live, task in idle:
                _close(live, task)

    def _write(self, accepting: list[tuple[LiveBatch, ArrayTask]], message: Message) -> bool:
        while accepting:
            live, task = accepting.pop(0)
            if live.folder.inbox(task.number).write(task.message, message):
                self._ledger.assign(task, message.runs)
                return True
            task.message = 0  # the task has closed its inbox
        return False

    def _accepting(self, limits: Limits, expect_s: float) -> list[tuple[LiveBatch, ArrayTask]]:
        """Return the tasks that would begin such a trial soon; first those with least to do."""
        found = []
        for live, task in self._open(limits):
            live.expect_s = expect_s
            if _soon(task, expect_s):
                found.append((live, task))
        return sorted(found, key=lambda one: _todo(one[1]))

    def _count(self, limits: Limits) -> int:
        """Return how many tasks accept such trials, or will once they run; 0 if none does yet."""
        there = len(list(self._open(limits)))
        like = (live for live in self._ledger.batches if live.batch.fits(limits))
        return there and there + sum(_waits(task) for live in like for task in live.tasks)

    def _open(self, limits: Limits | None = None) -> Iterator[tuple[LiveBatch, ArrayTask]]:
        """Yield the running tasks that accept further trials, only those with these limits."""
        now = loop_time()
        for live, task in self._ledger.tasks():
            if limits is not None and not live.batch.fits(limits):
                continue
            if not task.message or not task.started or task.cause is not None or task.stopping:
                continue
            idle = 0.0 if task.idle_since is None else now - task.idle_since
            if (
                now - task.started_at < live.batch.open_s
                and idle < live.batch.linger_s - _SLACK_S
                and _fit(live, task) > 0
                and not task.unwanted - task.over
            ):
                yield live, task


def _waits(task: ArrayTask) -> bool:
    """Whether a task waits in the queue."""
    return task.phase is Phase.WAITING and not task.started and task.cause is None


def _todo(task: ArrayTask) -> int:
    return len(task.runs) - len(task.over)


def _soon(task: ArrayTask, expect_s: float) -> bool:
    """Return whether a trial that is assigned now would begin soon."""
    return _todo(task) * expect_s < _SOON_S


def _fit(live: LiveBatch, task: ArrayTask) -> int:
    """Return how many more trials a task has time for, if all run to their deadlines."""
    record = live.batch
    left_s = record.minutes * 60 - START_S - (loop_time() - task.started_at)
    return int(left_s / record.each_s) - _todo(task)


def _close(live: LiveBatch, task: ArrayTask) -> None:
    """Assign a task no further trials, and tell it so."""
    live.folder.inbox(task.number).write(task.message, Message())
    task.message = 0
