"""Run a candidate in its sandbox: set up and check what it needs, then run it within its limits."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from hpcscientist.execution import folders, scoring
from hpcscientist.execution.bounds.supervise import (
    BoundedLog,
    Bounds,
    CommandEnd,
    Reason,
    RunPlace,
    supervise,
)
from hpcscientist.execution.sandbox import container, host
from hpcscientist.execution.sandbox.host import command, environment
from hpcscientist.files import trusted, vault
from hpcscientist.files.atomic import NO_SPACE
from hpcscientist.files.hashing import hash_texts, hash_tree
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.files.trusted import TrustedCopies, TrustedCopy
from hpcscientist.recipe.checks.tree import LARGEST
from hpcscientist.records.trial import IdeaFailed, Isolation, ProcessSpec, TrialSpec

# A scheduler that ends a job signals all of its processes, but not at the same instant.
_JOB_ENDS_WITH = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_JOB_ENDS_WITHIN_S = 1.0

_CURVES = "progress.jsonl"


def obstacles(spec: TrialSpec, paths: TrialPaths, private: Path) -> Iterator[str]:
    """Set up the private folder; yield reasons why the trial cannot be run as specified.

    Raises OSError and HostUnfit.
    """
    sources, code, work = spec.sources, private / "code", private / "work"
    if not scoring.is_scorer_intact(spec):
        yield f"{sources.scorer} is missing or was changed since launch: restore it"
    work.mkdir()
    # Check the copy, not the original: the copy will run.
    if not _lay_out(spec, paths, code):
        yield f"the code in {sources.code} is missing or not what was recorded: restore it"
    if not (code / sources.entry).is_file():
        yield f"there is no {sources.entry} in {sources.code}"
    if not Path(sources.data).is_dir():
        yield f"there is no data in {sources.data}: prepare it again"
    if spec.isolation is Isolation.APPTAINER:
        unbindable = container.unbindable(_places(spec, paths, private, str(sources.image)))
        if unbindable is not None:
            yield unbindable
        closed = container.unreadable(Path(sources.data)) if os.geteuid() == 0 else None
        if closed is not None:
            yield f"only root may read {closed}, candidates run as nobody: chmod -R a+rX {closed}"
        if shutil.which("apptainer") is None:
            yield "this node has no apptainer on PATH: name its module in the site profile"


def _lay_out(spec: TrialSpec, paths: TrialPaths, code: Path) -> bool:
    """Copy the recorded code; return False if no intact version exists. Raises OSError.

    A candidate without a sandbox can change another trial's code before it runs. The trusted copy
    is used then.
    """
    try:
        folders.copy_code(vault.path_of(spec.sources.code), code, LARGEST)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise
    if hash_tree(code) == spec.provenance.code_hash:
        return True
    run = RunPaths(paths.root.parent.parent)
    name = run.idea(spec.idea_id).code(spec.attempt).relative_to(run.root).as_posix()
    copy = TrustedCopy.of(run.root, spec.provenance.campaign_id)
    files = TrustedCopies(copy.contents).get(name)
    if files is None or hash_texts(files) != spec.provenance.code_hash:
        return False
    folders.renew(code)
    for file, text in files.items():
        path = code / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return True


def _places(spec: TrialSpec, paths: TrialPaths, private: Path, image_path: str) -> container.Places:
    """Return the paths that a candidate sees. Raises HostUnfit."""
    secret = (
        *(vault.path_of(spec.sources.labels), vault.path_of("keys")),
        *(vault.path_of(spec.sources.scorer), vault.path_of(trusted.FOLDER), paths.root),
    )
    return container.Places(
        image=image_path,
        code=private / "code",
        data=Path(spec.sources.data),
        out=paths.out,
        work=private / "work",
        more=host.binds(spec.host, secret),
    )


@dataclass(frozen=True, slots=True)
class CandidateEnd:
    """How a candidate ended. `refused`: why a file that a process should hand on was refused."""

    ended: CommandEnd
    refused: IdeaFailed | None = None


def run_candidate(
    spec: TrialSpec, paths: TrialPaths, private: Path, stop: threading.Event
) -> CandidateEnd:
    """Run the candidate to its end within its limits, its processes one after another.

    It ends with the first process that fails. Only files that the recipe names pass from one
    process to the next: the folders are emptied in between. A process sees no more of the data than
    the recipe says; without a sandbox, it only gets no path to the rest. Setting `stop` ends the
    candidate. Raises OSError, HostUnfit, WrongImage and Interrupted.
    """
    ended: CommandEnd | None = None
    curves = b""
    for process in spec.sources.processes or (None,):
        if ended is not None:
            folders.empty(paths.out)
            folders.empty(private / "work")
        own = _run(spec, paths, private, stop, process, ended.wall if ended else 0.0)
        ended = own if ended is None else _together(ended, own)
        if process is None or own.reason is not Reason.EXITED or own.exit_code != 0:
            break
        read = scoring.read_output(paths, _CURVES, spec.limits.output_mb * 2**20)
        curves += read if isinstance(read, bytes) else b""
        if process.file:
            content = scoring.read_output(paths, process.file, process.max_bytes)
            if isinstance(content, IdeaFailed):
                return CandidateEnd(ended, content)
            target = private / "handed" / process.name / process.file
            target.parent.mkdir(parents=True)
            target.write_bytes(content)
    assert ended is not None
    if curves and len(curves) <= spec.limits.output_mb * 2**20:
        folders.remove(paths.out / _CURVES)
        (paths.out / _CURVES).write_bytes(curves)
    return CandidateEnd(ended)


def _together(before: CommandEnd, last: CommandEnd) -> CommandEnd:
    return replace(
        last,
        wall=before.wall + last.wall,
        cpu_s=before.cpu_s + last.cpu_s,
        peak_mb=max(before.peak_mb, last.peak_mb),
    )


def _parts(spec: TrialSpec, private: Path, process: ProcessSpec) -> dict[str, Path]:
    """Return the folders that a process sees below its data, by name."""
    data = Path(spec.sources.data)
    names = {"train": "train", "split": spec.split.value}
    seen = {names[part]: data / names[part] for part in process.sees}
    return seen | {name: private / "handed" / name for name in process.reads}


def _run(
    spec: TrialSpec,
    paths: TrialPaths,
    private: Path,
    stop: threading.Event,
    process: ProcessSpec | None,
    spent_s: float,
) -> CommandEnd:
    code, work, limits = private / "code", private / "work", spec.limits
    bounds = Bounds(
        deadline_s=max(0.001, limits.deadline_s - spent_s),
        memory_mb=limits.memory_mb,
        output_mb=limits.output_mb,
        watched=(paths.out, work),
        processes=limits.processes,
        open_files=limits.open_files,
        apart=spec.isolation is Isolation.NONE,  # a container has its own namespace
    )
    given, is_root = environment(spec, work), os.geteuid() == 0
    name = process.name if process else ""
    parts = _parts(spec, private, process) if process else None
    if spec.isolation is Isolation.NONE:
        line = command(spec, code, paths.out, _linked(private, name, parts), name)
        with paths.log.open("ab") as file:
            return _run_bounded(line, RunPlace(work, given), bounds, stop, file)
    if is_root:
        handed = private / "handed"
        container.hand_over((code, paths.out, work, *([handed] if handed.exists() else [])))
    bounds = replace(
        bounds,
        memory_mb=bounds.memory_mb + container.OWN_MB,
        processes=bounds.processes + container.OWN_TASKS,
        # An ordinary user's container is in a user namespace of its own, root's is not.
        namespaces=0 if is_root else 1,
    )
    with container.on_node(spec, stop) as found, paths.log.open("ab") as file:
        if found.trouble:
            file.write(container.note(found.trouble))
        places = replace(_places(spec, paths, private, found.path), parts=parts)
        line = container.apptainer_command(spec, places, os.environ, is_root, name)
        return _run_bounded(line, RunPlace(work, given), bounds, stop, file)


def _linked(private: Path, name: str, parts: Mapping[str, Path] | None) -> str:
    """Return a folder of links to what a process may see; "" if it may see all data."""
    if parts is None:
        return ""
    folder = private / f"seen-{name}"
    folder.mkdir()
    for part, path in parts.items():
        (folder / part).symlink_to(path, target_is_directory=True)
    return str(folder)


def _run_bounded(
    line: list[str], place: RunPlace, bounds: Bounds, stop: threading.Event, log: BinaryIO
) -> CommandEnd:
    ended = supervise(line, place, bounds, stop, BoundedLog(log))
    code = ended.signal if ended.exit_code is None else ended.exit_code - 128
    if ended.reason is Reason.EXITED and code in _JOB_ENDS_WITH:
        # The sender of the signal may be about to end us, too. Then it says nothing about the idea.
        until = time.monotonic() + _JOB_ENDS_WITHIN_S
        while not stop.is_set() and time.monotonic() < until:
            time.sleep(0.02)  # not stop.wait: a signal handler in this thread sets it
    return ended
