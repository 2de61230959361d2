"""One trial: the candidate in its bounds, then the scorer. Every outcome is a type.

Whatever a candidate does ends up in the report; what goes wrong around it is a machine
failure and says nothing about the idea.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.errors import Interrupted
from hpcscientist.execution import container, folders, scoring, tampering
from hpcscientist.execution.bounded import BoundedLog
from hpcscientist.execution.candidate import command, environment
from hpcscientist.execution.supervise import Bounds, Ended, Place, supervise
from hpcscientist.execution.verdict import classify, idea_failed, machine_failed, of_error
from hpcscientist.files.atomic import read_tail
from hpcscientist.files.hashing import hash_tree
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.outcome import IdeaFailed, IdeaFailure, MachineFailure, Outcome
from hpcscientist.records.trial import Isolation, TrialReport, TrialSpec, Usage

_FULL_MB, _NEARLY_FULL_MB = 1, 64
_TAIL_BYTES = 8192
_MAY_BE_DISK = (IdeaFailure.ERROR, IdeaFailure.BAD_PREDICTIONS)


@dataclass(slots=True)
class _Course:
    """What is known of a trial so far; filled in as it goes."""

    ended: Ended | None = None
    predictions_hash: str | None = None


def run(spec: TrialSpec, paths: TrialPaths, stop: threading.Event | None = None) -> TrialReport:
    """Run a trial to its end and report.

    Setting `stop` ends the candidate's whole tree and raises Interrupted: nothing is
    reported then. Call it from the main thread (see `supervise`).
    """
    started_at, course = time.time(), _Course()
    stop = stop or threading.Event()
    try:
        outcome = _run(spec, paths, stop, course)
    except OSError as error:
        outcome = of_error(error)
    if stop.is_set():
        raise Interrupted(f"trial {spec.trial_id} was stopped")
    wall, cpu_s, peak_mb = 0.0, 0.0, 0.0
    if course.ended is not None:
        wall, cpu_s, peak_mb = course.ended.wall, course.ended.cpu_s, course.ended.peak_mb
    return TrialReport(
        trial_id=spec.trial_id,
        run=spec.run,
        outcome=outcome,
        usage=Usage(
            started_at=started_at,
            ended_at=time.time(),
            cpu_s=cpu_s,
            gpu_s=wall * spec.limits.gpus,
            peak_mb=peak_mb,
            node=socket.gethostname(),
        ),
        predictions_hash=course.predictions_hash,
    )


def _run(spec: TrialSpec, paths: TrialPaths, stop: threading.Event, course: _Course) -> Outcome:
    with folders.scratch(paths) as scratch:
        obstacle = next(_obstacles(spec, paths, scratch), None)
        if obstacle is not None:
            return machine_failed(MachineFailure.SETUP, obstacle)
        folders.renew(paths.out)
        folders.remove(paths.log)
        before = tampering.seal(paths)
        ended = course.ended = _candidate(spec, paths, scratch, stop)
        if stop.is_set():
            raise Interrupted(f"trial {spec.trial_id} was stopped")
        if found := tampering.undo(before, paths):
            return idea_failed(IdeaFailure.TAMPERING, found)
        failed = _verdict(spec, ended, paths.log)
        if failed is not None:
            return _unless_full(failed, paths, scratch)
    outcome, course.predictions_hash = scoring.score(spec, paths, stop)
    return _unless_full(outcome, paths, paths.out)


def _obstacles(spec: TrialSpec, paths: TrialPaths, scratch: Path) -> Iterator[str]:
    """Set the private folder up; yield what keeps the trial from being run as specified."""
    sources, code, work = spec.sources, scratch / "code", scratch / "work"
    if not scoring.is_scorer_intact(spec):
        yield f"{sources.scorer} is missing or was changed since launch: restore it"
    folders.copy_code(Path(sources.code), code)
    work.mkdir()
    # The copy is checked, not the original: it is what will run.
    if hash_tree(code) != spec.provenance.code_hash:
        yield f"the code in {sources.code} is missing or not what was recorded: restore it"
    if not (code / sources.entry).is_file():
        yield f"there is no {sources.entry} in {sources.code}"
    if not Path(sources.data).is_dir():
        yield f"there is no data in {sources.data}: prepare it again"
    if spec.isolation is Isolation.APPTAINER:
        path = container.unbindable((str(code), sources.data, str(paths.out), str(work)))
        if path is not None:
            yield f"Apptainer cannot bind {path}: use a path without colon and comma"
        closed = container.unreadable(Path(sources.data)) if os.geteuid() == 0 else None
        if closed is not None:
            yield f"only root may read {closed}, candidates run as nobody: chmod -R a+rX {closed}"


def _candidate(spec: TrialSpec, paths: TrialPaths, scratch: Path, stop: threading.Event) -> Ended:
    code, work = scratch / "code", scratch / "work"
    limits, memory_mb = spec.limits, spec.limits.memory_mb
    if spec.isolation is Isolation.APPTAINER:
        memory_mb += container.OWN_MB
        is_root = os.geteuid() == 0
        if is_root:
            container.hand_over((code, paths.out, work))
        line = container.apptainer_command(spec, code, paths.out, work, os.environ, is_root)
    else:
        line = command(spec, code, paths.out)
    bounds = Bounds(limits.deadline_s, memory_mb, limits.output_mb, (paths.out, work))
    place = Place(work, environment(spec, work))
    with paths.log.open("xb") as file:
        return supervise(line, place, bounds, stop, BoundedLog(file))


def _verdict(spec: TrialSpec, ended: Ended, log: Path) -> Outcome | None:
    tail = read_tail(log, _TAIL_BYTES)
    if spec.isolation is Isolation.NONE:
        return classify(spec, ended, tail)
    return classify(spec, ended, container.of_candidate(tail), container.start_failure(log))


def _unless_full(outcome: Outcome, paths: TrialPaths, scratch: Path) -> Outcome:
    """Return a disk failure instead where a full disk may be what failed the candidate."""
    if not isinstance(outcome, IdeaFailed) or outcome.failure not in _MAY_BE_DISK:
        return outcome
    free = min(folders.free_mb(place) for place in (paths.root, scratch))
    tail = read_tail(paths.log, _TAIL_BYTES)
    complains = "No space left on device" in tail or "ENOSPC" in tail
    if free < _FULL_MB or (complains and free < _NEARLY_FULL_MB):
        detail = f"{free:.1f} MiB are free for {paths.root} and {scratch}: make room"
        return machine_failed(MachineFailure.DISK_FULL, detail)
    return outcome
