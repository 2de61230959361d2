"""The candidate in its sandbox: what it needs is set up and checked, then it runs in its bounds."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from hpcscientist.execution import folders, scoring
from hpcscientist.execution.bounds.bounded import BoundedLog
from hpcscientist.execution.bounds.supervise import Bounds, Ended, Place, Reason, supervise
from hpcscientist.execution.sandbox import container, host, image
from hpcscientist.execution.sandbox.candidate import command, environment
from hpcscientist.files import trusted, vault
from hpcscientist.files.hashing import hash_texts, hash_tree
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.files.space import NO_SPACE
from hpcscientist.files.trusted import Contents, TrustedCopy
from hpcscientist.recipe.checks.tree import LARGEST
from hpcscientist.records.trial import Isolation, TrialSpec

# A scheduler that ends a job signals all of its processes, and not at the same instant.
_JOB_ENDS_WITH = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_JOB_ENDS_WITHIN_S = 1.0


def obstacles(spec: TrialSpec, paths: TrialPaths, private: Path) -> Iterator[str]:
    """Set the private folder up; yield what keeps the trial from being run as specified.

    Raises OSError and HostUnfit.
    """
    sources, code, work = spec.sources, private / "code", private / "work"
    if not scoring.is_scorer_intact(spec):
        yield f"{sources.scorer} is missing or was changed since launch: restore it"
    work.mkdir()
    # The copy is checked, not the original: it is what will run.
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
    """Copy the code that was recorded; False where it is nowhere. Raises OSError.

    A candidate without a sandbox can change it while it waits: then the trusted copy runs.
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
    files = Contents(copy.contents).get(name)
    if files is None or hash_texts(files) != spec.provenance.code_hash:
        return False
    folders.renew(code)
    for file, text in files.items():
        path = code / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return True


def _places(spec: TrialSpec, paths: TrialPaths, private: Path, image_path: str) -> container.Places:
    """Return what a candidate sees. Raises HostUnfit."""
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


def run_candidate(
    spec: TrialSpec, paths: TrialPaths, private: Path, stop: threading.Event
) -> Ended:
    """Run the candidate to its end within its limits.

    Setting `stop` ends it. Raises OSError, HostUnfit, WrongImage and Interrupted.
    """
    code, work, limits = private / "code", private / "work", spec.limits
    bounds = Bounds(
        deadline_s=limits.deadline_s,
        memory_mb=limits.memory_mb,
        output_mb=limits.output_mb,
        watched=(paths.out, work),
        processes=limits.processes,
        open_files=limits.open_files,
        apart=spec.isolation is Isolation.NONE,  # containers do that themselves
    )
    given, is_root = environment(spec, work), os.geteuid() == 0
    if spec.isolation is Isolation.NONE:
        line = command(spec, code, paths.out)
        with paths.log.open("xb") as file:
            return _run_bounded(line, Place(work, given), bounds, stop, file)
    if is_root:
        container.hand_over((code, paths.out, work))
    bounds = replace(
        bounds,
        memory_mb=bounds.memory_mb + container.OWN_MB,
        processes=bounds.processes + container.OWN_TASKS,
        # An ordinary user's container is in a namespace of its own, root's is not.
        namespaces=0 if is_root else 1,
    )
    with image.on_node(spec, stop) as found, paths.log.open("xb") as file:
        if found.trouble:
            file.write(container.note(found.trouble))
        places = _places(spec, paths, private, found.path)
        line = container.apptainer_command(spec, places, os.environ, is_root)
        return _run_bounded(line, Place(work, given), bounds, stop, file)


def _run_bounded(
    line: list[str], place: Place, bounds: Bounds, stop: threading.Event, log: BinaryIO
) -> Ended:
    ended = supervise(line, place, bounds, stop, BoundedLog(log))
    code = ended.signal if ended.exit_code is None else ended.exit_code - 128
    if ended.reason is Reason.EXITED and code in _JOB_ENDS_WITH:
        # Whoever ended it may be about to end us: then it says nothing about the idea.
        until = time.monotonic() + _JOB_ENDS_WITHIN_S
        while not stop.is_set() and time.monotonic() < until:
            time.sleep(0.02)  # not stop.wait: a signal handler sets it in this very thread
    return ended
