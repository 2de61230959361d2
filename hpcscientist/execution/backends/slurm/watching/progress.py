"""The progress of trials in array tasks, from their files and from Slurm's word on their tasks."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from hpcscientist.errors import RunDirectoryError
from hpcscientist.execution import presence
from hpcscientist.execution.backends.slurm.watching.ledger import (
    ArrayTask,
    BatchLedger,
    LiveBatch,
    loop_time,
)
from hpcscientist.files.atomic import read_tail
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.records.site import WatchSite
from hpcscientist.records.trial import Ended, EndState, Started

_LOG_TAIL = 16 * 1024
_HIDDEN_S = 3.0
_NO_LOG = "its node does not see the run directory, or may not write there: it left no log"
_TASKS_A_LOOK = 500  # with more running than this, files are looked at less often
# Where tasks take further trials their ends are seen within a part of what trials take.
_PART, _SOONEST_S, _TASKS_A_QUICK_LOOK = 1 / 8, 0.1, 50


class TaskProgress:
    """Advances every array task as far as its files show, and reports what began and ended."""

    def __init__(
        self,
        paths: RunPaths,
        watch: WatchSite,
        ledger: BatchLedger,
        tell: Callable[[Started | Ended], None],
    ) -> None:
        self._paths, self._watch, self._ledger, self._tell = paths, watch, ledger, tell
        self._next, self._running = 0.0, 0
        self._seen = False  # whether a node has written any file
        self._unseen: dict[LiveBatch, set[str]] = {}  # arrays whose tasks left no log, with nodes

    def pause_s(self) -> float:
        """Return the seconds until the next look is due."""
        return max(0.0, self._next - loop_time())

    def look(self) -> None:
        """Look at the files of tasks that run or have ended.

        Raises RunDirectoryError once it is certain that nodes do not see the run directory.
        """
        now = loop_time()
        hurried = any(
            task.cause is not None and task.remaining() for _, task in self._ledger.tasks()
        )
        if now < self._next and not hurried:
            return
        self._running = 0
        for live in list(self._ledger.batches):
            self._seen |= _note_started(live)
            for task in live.tasks:
                if not task.started and task.cause is None:
                    continue
                self._running += task.cause is None
                self._advance(live, task)
                if task.cause is not None and task.remaining():
                    self._settle(live, task)
        self._next = now + self._interval_s()
        self._raise_if_unseen()

    def _interval_s(self) -> float:
        usual = self._watch.files_s * max(1.0, self._running / _TASKS_A_LOOK)
        expected = (
            live.expect_s
            for live, task in self._ledger.tasks()
            if task.message and task.started and task.cause is None
        )
        quick = max(_SOONEST_S, _PART * min(expected, default=math.inf))
        return min(usual, quick * max(1.0, self._running / _TASKS_A_QUICK_LOOK))

    def _raise_if_unseen(self) -> None:
        """Raise RunDirectoryError if no task writes anything: further tasks would be lost as well.

        A single node may have lost a mount that others have, so two nodes or two arrays count.
        """
        nodes = set[str]().union(*self._unseen.values())
        if self._seen or max(len(nodes), len(self._unseen)) < 2 or self._had_workers():
            return
        where = f" on {', '.join(sorted(nodes))}" if nodes else ""
        raise RunDirectoryError(
            f"compute nodes do not see {self._paths.root}, or may not write there: array tasks"
            f"{where} ended without the log that Slurm makes as they start; launch with --run-dir "
            "on a file system that nodes share (`hpcsci doctor --run-dir DIR` tries one)"
        )

    def _had_workers(self) -> bool:
        """Return whether a worker wrote here, for this driver or an earlier one."""
        return any(self._paths.trials.glob("*/worker.json"))

    def believe(self, live: LiveBatch, task: ArrayTask) -> None:
        """End a task that squeue does not list, if all its trials have left results."""
        self._advance(live, task)
        if not task.remaining():
            task.end(EndState.ENDED, task.state)

    def _advance(self, live: LiveBatch, task: ArrayTask) -> None:
        """Report a task's trials in order, up to the first without a result."""
        while task.at < len(task.runs):
            run = task.runs[task.at]
            paths = self._paths.trial(run.trial_id)
            if not _has_ended(paths, run.run):
                begun = not live.by_name and _began(paths, run.run) is not None
                if begun and task.at not in task.told:
                    self._start(task, task.at)
                return
            if task.at not in task.over:
                self._end_well(live, task, task.at)
            task.at += 1

    def end_void(self, live: LiveBatch) -> None:
        """Report the ends of the trials of a batch that was probably never submitted."""
        for task in live.tasks:
            for position in task.remaining():
                run = task.runs[position]
                if _has_ended(self._paths.trial(run.trial_id), run.run):
                    self._end_well(live, task, position)
                    continue
                unwanted = position in task.unwanted
                state = EndState.CANCELLED if unwanted else EndState.NOT_SUBMITTED
                self._end(task, position, Ended(run, state, ended_at=time.time()))

    def _start(self, task: ArrayTask, position: int) -> None:
        if position not in task.told:
            task.told.add(position)
            if self._ledger.is_in(task.runs[position], task):
                self._tell(Started(task.runs[position]))

    def _end(self, task: ArrayTask, position: int, ended: Ended) -> None:
        """Report an end, unless the run now belongs to a later batch, whose end then counts."""
        task.over.add(position)
        if self._ledger.is_in(task.runs[position], task):
            self._tell(ended)

    def _end_well(self, live: LiveBatch, task: ArrayTask, position: int) -> None:
        """Report the end of a trial that left a result."""
        self._start(task, position)
        run = task.runs[position]
        now = time.time()
        ended = Ended(
            run,
            EndState.ENDED,
            ended_at=now,
            began_at=now - max(0.0, _seconds(self._paths.trial(run.trial_id))),
            node=task.node,
            job=_job(live, task),
            scheduler_state=task.state,
        )
        self._end(task, position, ended)

    def _settle(self, live: LiveBatch, task: ArrayTask) -> None:
        """Report the ends of trials whose task has ended without their results."""
        if self._may_be_hidden(task):
            return
        for position in task.remaining():
            # A trial without a result stops `_advance`, though later ones may have results.
            run = task.runs[position]
            if _has_ended(self._paths.trial(run.trial_id), run.run):
                self._end_well(live, task, position)
        task.at = len(task.runs)
        left = task.remaining()
        if left and _left_no_log(task):
            self._unseen.setdefault(live, set()).update([task.node] if task.node else [])
        for position in left:
            if position in task.unwanted:
                state = EndState.CANCELLED
            elif task.stopping or live.by_name or position != left[0]:
                state = EndState.NOT_RUN
            else:
                state = task.cause or EndState.LOST
            ended = self._lost(live, task, position, state)
            if ended.began_at is not None:
                self._start(task, position)
            self._end(task, position, ended)

    def _lost(self, live: LiveBatch, task: ArrayTask, position: int, state: EndState) -> Ended:
        run, now = task.runs[position], time.time()
        if state is EndState.NOT_RUN:
            return Ended(run, state, ended_at=now)
        log = live.folder.log(live.job_id or "", task.number)
        ran_s = _ran_s(self._paths.trial(run.trial_id), run.run, log)
        return Ended(
            run,
            state,
            ended_at=now,
            began_at=None if ran_s is None else now - ran_s,
            node=task.node,
            job=_job(live, task),
            scheduler_state=task.state,
            why=_NO_LOG if _left_no_log(task) else "",
            said=read_tail(log, _LOG_TAIL),
        )

    def _may_be_hidden(self, task: ArrayTask) -> bool:
        """Return whether a file system may still hide results that another node wrote.

        A task that ended well has written them; one that Slurm ended may have done so just before.
        """
        for position in task.remaining():
            # Listing a folder makes a network file system refresh it.
            with contextlib.suppress(OSError):
                os.listdir(self._paths.trial(task.runs[position].trial_id).root)  # noqa: PTH208
        patience = self._watch.visible_s
        if task.cause is not EndState.ENDED and (self._seen or not _left_no_log(task)):
            patience = min(patience, _HIDDEN_S) if task.started else 0.0
        return loop_time() - task.ended_at < patience


def _job(live: LiveBatch, task: ArrayTask) -> str:
    return f"{live.job_id}_{task.number}"


def _left_no_log(task: ArrayTask) -> bool:
    """Return whether a task left no log although Slurm says that it ran to an end."""
    return not task.started and task.cause in (EndState.FAILED, EndState.ENDED)


def _note_started(live: LiveBatch) -> bool:
    """Mark tasks whose log exists, which Slurm creates at their start; return whether any does."""
    waiting = [task for task in live.tasks if not task.started and task.remaining()]
    if live.job_id is None or not waiting:
        return any(task.started for task in live.tasks)
    prefix = f"{live.job_id}_"
    try:
        names = os.listdir(live.folder.root)  # noqa: PTH208
    except OSError:
        return False
    for name in names:
        if name.startswith(prefix) and name.endswith("_0_log.out"):
            number = name[len(prefix) :].partition("_")[0]
            if number.isdigit() and int(number) < len(live.tasks):
                task = live.tasks[int(number)]
                if not task.started:
                    task.started, task.started_at = True, loop_time()
    return any(task.started for task in live.tasks)


def _began(paths: TrialPaths, run: int) -> float | None:
    """Return the seconds since a worker began this run; None if none did."""
    known = presence.read(paths)
    if known is None or known.run != run:
        return None
    try:
        return max(0.0, time.time() - paths.worker.stat().st_mtime)
    except OSError:
        return None


def _ran_s(paths: TrialPaths, run: int, log: Path) -> float | None:
    """Return for how many seconds a worker was on this run; None if it had not begun.

    A task's end is the time when its log was last written: Slurm logs there what it does to the
    task, and the driver may look hours later.
    """
    began = _began(paths, run)
    if began is None:
        return None
    try:
        seconds = _mtime(log) - _mtime(paths.worker)
    except OSError:
        return began
    return seconds if seconds >= 0 else began


def _has_ended(paths: TrialPaths, run: int) -> bool:
    """Return whether there is a result that this run's worker wrote, and not an earlier one's.

    A worker announces itself, then removes an old result. So a result older than the announcement
    is about to be removed.
    """
    if not paths.result.exists():
        return False
    known = presence.read(paths)
    return known is not None and known.run == run and _seconds(paths) >= 0.0


def _seconds(paths: TrialPaths) -> float:
    """Return the seconds from a worker's announcement to its result; negative if one is missing."""
    try:
        return _mtime(paths.result) - _mtime(paths.worker)
    except OSError:
        return -1.0


def _mtime(path: Path) -> float:
    return path.stat().st_mtime
