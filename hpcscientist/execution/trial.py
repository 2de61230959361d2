"""Run one trial: the candidate within its bounds, then the scorer. Every outcome is a type.

Whatever the candidate does ends up in the report. Anything that goes wrong around it is a machine
failure and says nothing about the idea.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.errors import Interrupted
from hpcscientist.execution import folders, presence, scoring, scratch
from hpcscientist.execution.bounds.supervise import CommandEnd
from hpcscientist.execution.sandbox import container, host
from hpcscientist.execution.sandbox import running as sandbox
from hpcscientist.execution.trial_outcome import (
    classify_failure,
    idea_failed,
    machine_failed,
    of_error,
)
from hpcscientist.files.atomic import NO_SPACE, read_tail, takes, write_atomic
from hpcscientist.files.handed import read_regular
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.trial import (
    IdeaFailed,
    IdeaFailure,
    Isolation,
    MachineFailure,
    Outcome,
    TrialReport,
    TrialSpec,
    Usage,
)
from hpcscientist.system import processes

# A candidate must not touch anything of its trial's folder but `out`.
#
# Without a sandbox it can, but it gains nothing and is detected. Not covered: files outside the
# trial's folder.

_NETWORK_LEFTOVER = ".nfs"  # how an NFS client names a deleted file that is still open


@dataclass(frozen=True, slots=True)
class FolderBefore:
    """The state of a trial's folder before the candidate ran."""

    names: frozenset[str]
    contents: dict[str, bytes]


def look(paths: TrialPaths) -> FolderBefore:
    """Return the state of a trial's folder. Raises OSError."""
    ours = (paths.spec, paths.worker)
    return FolderBefore(
        names=_names(paths) | {paths.out.name, paths.log.name},
        contents={p.name: read_regular(p) for p in ours if p.exists()},
    )


def undo(before: FolderBefore, paths: TrialPaths) -> str | None:
    """Restore the folder; return what had been tampered with, or None. Raises OSError."""
    found: list[str] = []
    if paths.root.is_symlink() or not paths.root.is_dir():
        found.append("it removed the trial's folder")
        folders.renew(paths.root)
    for name in sorted(_names(paths) - before.names):
        if not name.startswith(_NETWORK_LEFTOVER):
            found.append(f"it put {name!r} into the trial's folder")
            folders.remove(paths.root / name)
    for name, content in sorted(before.contents.items()):
        path = paths.root / name
        if not _holds(path, content):
            found.append(f"it changed {name}")
            folders.remove(path)
            write_atomic(path, content)
    if paths.out.is_symlink() or not paths.out.is_dir():
        found.append("it replaced its output folder")
        folders.renew(paths.out)
    if _is_foreign_file(paths.log):
        found.append("it replaced the log")
        folders.remove(paths.log)
    return "; ".join(found) or None


def _names(paths: TrialPaths) -> frozenset[str]:
    return frozenset(path.name for path in paths.root.iterdir())


def _holds(path: Path, content: bytes) -> bool:
    """Return whether a path is a plain file with this content; read it only if the size fits."""
    if _is_foreign_file(path) or path.stat().st_size != len(content):
        return False
    return path.read_bytes() == content


def _is_foreign_file(path: Path) -> bool:
    try:
        info = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return True
    return not stat.S_ISREG(info.st_mode) or info.st_nlink != 1


_FULL_MB, _NEARLY_FULL_MB = 1, 64
_TAIL_BYTES = 8192
_COMPLAINTS = ("No space left on device", "ENOSPC", "Disk quota exceeded", "EDQUOT")
_MAY_BE_DISK = (IdeaFailure.ERROR, IdeaFailure.BAD_PREDICTIONS)


@dataclass(slots=True)
class _Course:
    """What is known about a trial so far; filled in as it runs."""

    mine: presence.Presence | None = None
    ended: CommandEnd | None = None
    predictions_hash: str | None = None


def run(
    spec: TrialSpec,
    paths: TrialPaths,
    stop: threading.Event | None = None,
    mine: presence.Presence | None = None,
) -> TrialReport:
    """Run a trial to its end and return its report.

    Setting `stop` ends the candidate's whole process tree and raises Interrupted, without a report.
    `mine` is what this worker announced: if the trial was given to another worker or its folder is
    gone, the folder is left as it is and Replaced is raised. Call it from the main thread (see
    `supervise`).
    """
    started_at, course = time.time(), _Course(mine=mine)
    stop = stop or threading.Event()
    try:
        outcome = _run(spec, paths, stop, course)
    except OSError as error:
        outcome = of_error(error, _full_place(spec, paths) if error.errno in NO_SPACE else None)
    except (host.HostUnfit, container.WrongImage) as error:
        outcome = machine_failed(MachineFailure.SETUP, str(error))
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
            node=node_name(os.environ),
            slurm_job=slurm_job(os.environ),
        ),
        predictions_hash=course.predictions_hash,
    )


def node_name(environment: Mapping[str, str]) -> str:
    """Return Slurm's name of this node; outside Slurm's jobs the host name.

    On many clusters the host name includes a domain, and Slurm rejects such a name.
    """
    return environment.get("SLURMD_NODENAME") or socket.gethostname()


def slurm_job(environment: Mapping[str, str]) -> str | None:
    """Return the Slurm job of this process, as `ID` or `ARRAY_TASK`; None outside of jobs."""
    array, task = (environment.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK"))
    return f"{array}_{task}" if array and task else environment.get("SLURM_JOB_ID") or None


def _run(spec: TrialSpec, paths: TrialPaths, stop: threading.Event, course: _Course) -> Outcome:
    if scratch.sweep(spec, paths):
        processes.end_marked(spec.provenance.campaign_id, spec.trial_id)
    outcome = _outcome(spec, paths, stop, course)
    if course.ended is not None:
        with contextlib.suppress(OSError):  # nobody who reads these files trusts them anyway
            folders.leave_plain(paths.out, spec.limits.output_mb * 2**20)
    return outcome


def _outcome(spec: TrialSpec, paths: TrialPaths, stop: threading.Event, course: _Course) -> Outcome:
    with scratch.private_folder(spec, paths) as private:
        obstacle = next(sandbox.obstacles(spec, paths, private), None)
        if obstacle is not None:
            return machine_failed(MachineFailure.SETUP, obstacle)
        folders.remove(paths.out)
        paths.out.mkdir()  # without parents: a trial's folder that was removed stays removed
        folders.remove(paths.log)
        before = look(paths)
        ran = sandbox.run_candidate(spec, paths, private, stop)
        course.ended = ran.ended
        if stop.is_set():
            raise Interrupted(f"trial {spec.trial_id} was stopped")
        _still_ours(spec, paths, course.mine)
        if found := undo(before, paths):
            return _tampered(spec, found)
        failed = _verdict(spec, ran.ended, paths.log) or ran.refused
        if failed is not None:
            return _unless_full(failed, paths, private)
    outcome, course.predictions_hash = scoring.score(spec, paths, stop)
    return _unless_full(outcome, paths, paths.out)


def _still_ours(spec: TrialSpec, paths: TrialPaths, mine: presence.Presence | None) -> None:
    if mine is None:
        return
    if presence.is_taken_away(paths, spec.isolation):
        raise presence.Replaced(f"trial {spec.trial_id} ended without this worker")
    if presence.is_replaced(paths, mine):
        raise presence.Replaced(f"trial {spec.trial_id} was given to another worker")


def _tampered(spec: TrialSpec, found: str) -> Outcome:
    if spec.isolation is Isolation.NONE:
        return idea_failed(IdeaFailure.TAMPERING, found)
    # It cannot have been the candidate, which did not see the folder.
    detail = f"somebody changed the trial's folder while it ran ({found}): leave it alone"
    return machine_failed(MachineFailure.SETUP, detail)


def _verdict(spec: TrialSpec, ended: CommandEnd, log: Path) -> Outcome | None:
    tail = read_tail(log, _TAIL_BYTES)
    if spec.isolation is Isolation.NONE:
        return classify_failure(spec, ended, tail)
    return classify_failure(spec, ended, container.of_candidate(tail), container.start_failure(log))


def _unless_full(outcome: Outcome, paths: TrialPaths, private: Path) -> Outcome:
    """Return the outcome, or a disk failure if a full disk may have made the candidate fail."""
    if not isinstance(outcome, IdeaFailed) or outcome.failure not in _MAY_BE_DISK:
        return outcome
    tail = read_tail(paths.log, _TAIL_BYTES)
    complains = any(word in tail for word in _COMPLAINTS)
    for place in (private, paths.root):
        free = folders.free_mb(place)
        if free < _FULL_MB or (complains and free < _NEARLY_FULL_MB):
            detail = f"{free:.1f} MiB are free for {place}: make room"
            return machine_failed(MachineFailure.DISK_FULL, detail)
        # Free space does not reflect a quota, and the candidate's message is no proof: so write.
        if complains and not takes(place, _FULL_MB * 2**20):
            detail = f"your quota is used up for {place}: make room"
            return machine_failed(MachineFailure.DISK_FULL, detail)
    return outcome


def _full_place(spec: TrialSpec, paths: TrialPaths) -> Path | None:
    """Return the folder of a trial that has no space left, if an error does not name it."""
    places = [paths.root]
    with contextlib.suppress(host.HostUnfit, OSError):
        places.insert(0, host.scratch_base(spec.host))
    for place in places:
        with contextlib.suppress(OSError):
            if folders.free_mb(place) < _FULL_MB or not takes(place, _FULL_MB * 2**20):
                return place
    return None
