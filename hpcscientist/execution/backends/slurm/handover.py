"""Gives short trials to array tasks that run, where they begin sooner than in a new array."""

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

# About what it takes to start an array task: a trial is worth waiting so long for a running one.
_SOON_S = 3.0
# An idle task is not kept where others wait in the queue: it may hold the place they wait for. In
# this time who waits for its last trial has asked for the next.
_IDLE_S = 1.0
_SLACK_S = 2.0  # what an idle task may be ahead of what is seen of it
_QUICK_S = 0.02


class Handover:
    """Knows which array tasks take further trials, and writes them into their inboxes."""

    def __init__(self, ledger: BatchLedger) -> None:
        self._ledger = ledger

    def gather_s(self, usual_s: float) -> float:
        """Return how long trials are gathered: hardly where a running task can begin them."""
        some = any(_soon(task, live.expect_s) for live, task in self._open())
        return min(usual_s, _QUICK_S) if some else usual_s

    def capacity(self, like: TrialSpec, expect_s: float, most: int) -> Capacity | None:
        """Return what running tasks take now, of trials like this one; None: ask for a new array.

        Where `most` tasks are there, a further one would only wait: trials wait here, for whichever
        task is free first.
        """
        if takers := self._takers(like.limits, expect_s):
            room, each = len(takers), min(_fit(live, task) for live, task in takers)
            return Capacity(room=room, batch_max=room, at_once=room, each=each, pack_s=_SOON_S)
        if 0 < most <= self._count(like.limits):
            return Capacity(room=0, batch_max=0, at_once=0, pause_s=_SOON_S)
        return None

    def beside(self, found: Capacity, limits: Limits) -> Capacity:
        """Return what a new array may hold beside tasks that take such trials, if there are any."""
        there = self._count(limits)
        more = max(1, found.at_once - there)
        if not there:
            return found
        return replace(found, room=min(found.room, more), at_once=more, pack_s=_SOON_S)

    def give(self, batch: Batch) -> list[RunId] | None:
        """Give a batch to running tasks; return the runs that came too late for that.

        None where it is for a new array.
        """
        for live, task in self._open():
            if task.node in batch.avoid:
                _close(live, task)
        takers = self._takers(batch.elements[0][0].limits, batch.expect_s)
        if len(takers) < len(batch.elements):
            return None
        left: list[RunId] = []
        for element in batch.elements:
            runs = tuple(map(run_of, element))
            if not self._give(takers, Message(batch_id=batch.batch_id, runs=runs)):
                left += runs
        return left

    def close_idle(self) -> None:
        """Close the inboxes of tasks that have nothing to do, where others wait in the queue."""
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

    def _give(self, takers: list[tuple[LiveBatch, ArrayTask]], message: Message) -> bool:
        while takers:
            live, task = takers.pop(0)
            if live.folder.inbox(task.number).write(task.message, message):
                self._ledger.give(task, message.runs)
                return True
            task.message = 0  # it has closed its inbox
        return False

    def _takers(self, limits: Limits, expect_s: float) -> list[tuple[LiveBatch, ArrayTask]]:
        """Return the tasks that would begin such a trial soon, the soonest first."""
        found = []
        for live, task in self._open(limits):
            live.expect_s = expect_s
            if _soon(task, expect_s):
                found.append((live, task))
        return sorted(found, key=lambda one: _todo(one[1]))

    def _count(self, limits: Limits) -> int:
        """Return how many tasks take such trials, or will; 0 where none does yet."""
        there = len(list(self._open(limits)))
        like = (live for live in self._ledger.batches if live.batch.takes(limits))
        return there and there + sum(_waits(task) for live in like for task in live.tasks)

    def _open(self, limits: Limits | None = None) -> Iterator[tuple[LiveBatch, ArrayTask]]:
        """Yield the running tasks that take further trials, those of such limits."""
        now = loop_time()
        for live, task in self._ledger.tasks():
            if limits is not None and not live.batch.takes(limits):
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
    """Whether a trial that is given to a task now would begin soon."""
    return _todo(task) * expect_s < _SOON_S


def _fit(live: LiveBatch, task: ArrayTask) -> int:
    """Return how many more trials have time in a task, if all run to their deadlines."""
    record = live.batch
    left_s = record.minutes * 60 - START_S - (loop_time() - task.started_at)
    return int(left_s / record.each_s) - _todo(task)


def _close(live: LiveBatch, task: ArrayTask) -> None:
    """Give a task no further trials, and tell it so."""
    live.folder.inbox(task.number).write(task.message, Message())
    task.message = 0
