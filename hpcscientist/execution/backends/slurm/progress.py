"""Where trials in array tasks stand: by their files, and by what Slurm said of their tasks."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hpcscientist.execution import presence
from hpcscientist.execution.backends.leftovers import keep_log
from hpcscientist.execution.backends.slurm import clock
from hpcscientist.execution.backends.slurm.ledger import (
    ArrayTask,
    Durations,
    Entry,
    Ledger,
    LiveBatch,
)
from hpcscientist.execution.backends.slurm.states import Cause
from hpcscientist.execution.backends.slurm.verdicts import Evidence, judge
from hpcscientist.files.atomic import read_tail
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.records.outcome import Scored
from hpcscientist.records.site import WatchSite

_LOG_TAIL = 16 * 1024
_HIDDEN_S = 3.0
_TASKS_A_LOOK = 500  # with more running than this, files are looked at less often


class Progress:
    """Moves every array task as far as its files allow, and tells who waits."""

    def __init__(
        self,
        paths: RunPaths,
        watch: WatchSite,
        ledger: Ledger,
        durations: Durations,
        put_back: Callable[[Sequence[Entry]], None],
    ) -> None:
        self._paths, self._watch, self._ledger = paths, watch, ledger
        self._durations, self._put_back = durations, put_back
        self._next, self._running = 0.0, 0

    def pause_s(self) -> float:
        """Return the seconds until the next look is due."""
        return max(0.0, self._next - clock.now())

    def look(self) -> bool:
        """Look at the files of tasks that run or have ended; tell whether anything ended."""
        now = clock.now()
        hurried = any(
            task.cause is not None and task.remaining() for _, task in self._ledger.tasks()
        )
        if now < self._next and not hurried:
            return False
        changed, self._running = False, 0
        for live in list(self._ledger.batches):
            _note_started(live)
            for task in live.tasks:
                if not task.started and task.cause is None:
                    continue
                self._running += task.cause is None
                changed |= self._advance(task)
                if task.cause is not None and task.remaining():
                    changed |= self._settle(live, task)
        self._next = now + self._watch.files_s * max(1.0, self._running / _TASKS_A_LOOK)
        return changed

    def _advance(self, task: ArrayTask) -> bool:
        """Follow a task's trials as far as they have results."""
        moved = False
        while task.at < len(task.slots):
            slot, entry = task.slots[task.at], task.entries.get(task.at)
            paths = self._paths.trial(slot.trial_id)
            if not _has_ended(paths, slot.run):
                if entry is not None and not entry.began and _began(paths, slot.run) is not None:
                    _tell_start(entry)
                break
            task.at += 1
            moved = True
            if entry is not None and not entry.gone.is_set():
                self._durations.add(entry.spec, _seconds(paths))
                entry.end(None)
        return moved

    def _settle(self, live: LiveBatch, task: ArrayTask) -> bool:
        """Decide about trials whose task has ended without their results."""
        if self._may_be_hidden(task):
            return False
        for position, entry in task.remaining():
            # One that raised in a packed task hid those after it.
            if not entry.stopping and _has_ended(
                self._paths.trial(entry.spec.trial_id), task.slots[position].run
            ):
                entry.end(None)
        waiting = [entry for _, entry in task.remaining()]
        for entry in waiting:
            if entry.stopping:
                entry.give_up()
        wanted = [entry for entry in waiting if not entry.stopping]
        task.at = len(task.slots)
        task.entries.clear()
        if task.stopping or task.cause is Cause.PREEMPTED:
            self._put_back(wanted)
            return True
        if not wanted:
            return True
        first = wanted[0]
        self._put_back(wanted[1:])
        paths = self._paths.trial(first.spec.trial_id)
        log = live.folder.log(live.job_id or "", task.number)
        said = read_tail(log, _LOG_TAIL)
        evidence = Evidence(
            cause=task.cause or Cause.VANISHED,
            state=task.state,
            node=task.node,
            job=f"{live.job_id}_{task.number}",
            said=said,
            ran_s=_ran_s(paths, first.spec.run, log),
            killed_by=task.killed_by,
        )
        report = judge(first.spec, evidence)
        if not isinstance(report.outcome, Scored):
            keep_log(paths, f"{said.strip()}\n{report.outcome.detail}\n".lstrip())
        first.end(report)
        return True

    def _may_be_hidden(self, task: ArrayTask) -> bool:
        """Whether a file system may still hide results that another node wrote.

        A task that ended well has written them; one that Slurm ended may have, just before.
        """
        for _, entry in task.remaining():
            # Listing a folder makes a network file system look at it again.
            with contextlib.suppress(OSError):
                os.listdir(self._paths.trial(entry.spec.trial_id).root)  # noqa: PTH208
        patience = self._watch.visible_s
        if task.cause is not Cause.DONE:
            patience = min(patience, _HIDDEN_S) if task.started else 0.0
        return clock.now() - task.ended_at < patience


def _note_started(live: LiveBatch) -> None:
    """Mark the tasks whose log exists: Slurm makes it as a task starts."""
    if live.job_id is None or all(task.started or task.cause for task in live.tasks):
        return
    prefix = f"{live.job_id}_"
    try:
        names = os.listdir(live.folder.root)  # noqa: PTH208
    except OSError:
        return
    for name in names:
        if name.startswith(prefix) and name.endswith("_0_log.out"):
            number = name[len(prefix) :].partition("_")[0]
            if number.isdigit() and int(number) < len(live.tasks):
                live.tasks[int(number)].started = True


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
    """Return the seconds that a worker was on this run; None if it had not begun.

    A task's end is when its log was last written: Slurm says there what it does to a task, and
    the driver may look hours later.
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
    """Whether there is a result that this run's worker wrote, and not an earlier one's.

    A worker announces itself, then removes an old result: one that is older than the
    announcement is about to go.
    """
    if not paths.result.exists():
        return False
    known = presence.read(paths)
    return known is not None and known.run == run and _seconds(paths) >= 0.0


def _seconds(paths: TrialPaths) -> float:
    """Return the seconds from a worker's announcement to its result; negative without either."""
    try:
        return _mtime(paths.result) - _mtime(paths.worker)
    except OSError:
        return -1.0


def _mtime(path: Path) -> float:
    return path.stat().st_mtime


def _tell_start(entry: Entry) -> None:
    if entry.stopping:
        return
    try:
        entry.start()
    except Exception as error:  # noqa: BLE001 (the caller's own, passed back to it)
        entry.fail(error)
