"""Turn predictions into metrics: a process that sees the labels scores a copy of the file.

No number is ever read from anything else that a candidate wrote or printed.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import stat
import sys
import threading
from pathlib import Path

from hpcscientist.errors import Interrupted
from hpcscientist.execution import folders, scratch
from hpcscientist.execution.bounds.supervise import (
    BoundedLog,
    Bounds,
    CommandEnd,
    Reason,
    RunPlace,
    supervise,
)
from hpcscientist.execution.sandbox.host import environment
from hpcscientist.execution.trial_outcome import error_headline, idea_failed, machine_failed
from hpcscientist.files import vault
from hpcscientist.files.hashing import hash_file
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import (
    LARGEST,
    IdeaFailed,
    IdeaFailure,
    MachineFailed,
    MachineFailure,
    Outcome,
    Scored,
    TrialSpec,
    is_measured,
)

_BAD_PREDICTIONS_EXIT = 3
_REPLY_BYTES = 64 * 1024


def score(spec: TrialSpec, paths: TrialPaths, stop: threading.Event) -> tuple[Outcome, str | None]:
    """Return the outcome and, if scored, the hash of the predictions.

    Raises OSError (no space for the copy), HostUnfit and Interrupted.
    """
    with scratch.private_folder(spec, paths) as private:
        taken = _take(spec, paths, _copy_of(spec, private))
        if isinstance(taken, IdeaFailed):
            return taken, None
        if not is_scorer_intact(spec):
            changed = f"{spec.sources.scorer} was changed while the trial ran: restore it"
            return machine_failed(MachineFailure.SETUP, changed), None
        outcome = _run_scorer(spec, private, stop)
    # Equal self-reported numbers do not prove that two candidates did the same.
    is_evidence = isinstance(outcome, Scored) and not spec.metrics[0].is_self_reported
    return outcome, taken if is_evidence else None


def is_scorer_intact(spec: TrialSpec) -> bool:
    """Return whether the scorer is the file that was recorded at launch."""
    try:
        return hash_file(vault.path_of(spec.sources.scorer)) == spec.sources.scorer_hash
    except OSError:
        return False


def _take(spec: TrialSpec, paths: TrialPaths, copy: Path) -> str | IdeaFailed:
    """Copy the predictions, following no link on their path; return their hash."""
    content = read_output(paths, spec.sources.predictions, spec.limits.output_mb * 2**20)
    if isinstance(content, IdeaFailed):
        return content
    copy.parent.mkdir()
    copy.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def read_output(paths: TrialPaths, name: str, limit: int) -> bytes | IdeaFailed:
    """Return the content of a file that a candidate wrote, or why it cannot be used.

    The file may have at most `limit` bytes. No link on its path is followed. Raises OSError.
    """
    try:
        descriptor = _open_below(paths.root, (paths.out.name, *Path(name).parts))
    except OSError as error:
        detail = _UNOPENED.get(error.errno or 0)
        if detail is None:
            raise
        failure = _BAD if error.errno in (errno.ENOENT, errno.EACCES) else IdeaFailure.TAMPERING
        return idea_failed(failure, detail.format(name))
    try:
        fault = _fault(os.fstat(descriptor), name, limit)
        if fault is not None:
            return fault
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)


def _copy_of(spec: TrialSpec, private: Path) -> Path:
    """Return the path of the copy for the scorer, in a folder of its own: any name is possible."""
    return private / "predictions" / Path(spec.sources.predictions).name


_BAD = IdeaFailure.BAD_PREDICTIONS
_UNOPENED = {
    errno.ENOENT: "it wrote no {}",
    errno.EACCES: "{} cannot be read",
    errno.ELOOP: "{} is a symbolic link, not a file of its own",
    errno.ENOTDIR: "{} is below something that is no folder of its own",
    errno.ENXIO: "{} is a special file",
}


def _fault(info: os.stat_result, name: str, limit: int) -> IdeaFailed | None:
    """Return why an opened file cannot be read as predictions, or None."""
    if not stat.S_ISREG(info.st_mode):
        return idea_failed(IdeaFailure.TAMPERING, f"{name} is a folder or special file")
    if info.st_nlink > 1:
        return idea_failed(IdeaFailure.TAMPERING, f"{name} is a hard link to another file")
    if info.st_size > limit:
        most = f"{limit // 2**20} MiB" if limit >= 2**20 else f"{limit} bytes"
        return idea_failed(_BAD, f"{name} is larger than the {most} allowed")
    return None


def _open_below(root: Path, parts: tuple[str, ...]) -> int:
    """Open a file for reading, following no link in any of `parts`. Raises OSError."""
    if ".." in parts:
        raise FileNotFoundError(errno.ENOENT, "outside the output folder")
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        return os.open(parts[-1], flags, dir_fd=folder)
    finally:
        os.close(folder)


def _run_scorer(spec: TrialSpec, private: Path, stop: threading.Event) -> Outcome:
    predictions = _copy_of(spec, private)
    home = private / "home"
    home.mkdir()
    limits = spec.limits
    # -P: do not import modules planted beside the scorer or in its working directory.
    command = [sys.executable, "-P", "-B", str(vault.path_of(spec.sources.scorer))]
    labels = vault.path_of(spec.sources.labels)
    command += ["--predictions", str(predictions), "--labels", str(labels)]
    bounds = Bounds(limits.scorer_s, max(limits.scorer_mb, limits.memory_mb), limits.output_mb)
    out, err = io.BytesIO(), io.BytesIO()
    ended = supervise(
        command,
        RunPlace(home, environment(spec, home)),
        bounds,
        stop,
        BoundedLog(out, _REPLY_BYTES, 0),
        BoundedLog(err, 0, _REPLY_BYTES),
    )
    folders.empty(home)
    if ended.reason is Reason.STOPPED:
        raise Interrupted("stopped while scoring")
    return outcome_of(spec, ended, out.getvalue(), err.getvalue().decode("utf-8", "replace"))


def outcome_of(spec: TrialSpec, ended: CommandEnd, stdout: bytes, stderr: str) -> Outcome:
    """Return the outcome from how the scorer ended and what it printed."""
    # Candidates can read the result, so it names labels by their key.
    said = error_headline(stderr.replace(f"{vault.path_of('')}/", ""))
    if ended.reason is Reason.EXITED and ended.exit_code == _BAD_PREDICTIONS_EXIT:
        return idea_failed(_BAD, said or "the scorer refused the predictions")
    if ended.reason is not Reason.EXITED:
        bounds = f"{spec.limits.scorer_s:g} s, {spec.limits.scorer_mb} MiB"
        fix = "raise seconds or memory_mb in [scorer] of recipe.toml"
        return _failed(f"the scorer passed its bound of {ended.reason.value} ({bounds}): {fix}")
    if ended.exit_code != 0:
        how = f"exit {ended.exit_code}" if ended.signal is None else f"signal {ended.signal}"
        return _failed(f"the scorer failed ({how}): {said}")
    try:
        values = json.loads(stdout)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        return _failed("the scorer printed no JSON object")
    return _scores(spec, values)


def _scores(spec: TrialSpec, values: dict[str, object]) -> Outcome:
    """Return the outcome from the values that the scorer printed."""
    found = {metric.name: _number(values.get(metric.name)) for metric in spec.metrics}
    scores = {name: value for name, value in found.items() if value is not None}
    for name, value in found.items():
        if value is None:
            return _failed(f"the scorer gave no number for {name!r}")
        if not math.isfinite(value) and spec.idea_id == BASELINE_ID:
            return _failed(f"the scorer gave no finite number for {name!r}")
        # The scorer accepted the reference's predictions, so these are at fault.
        if not is_measured(value):
            beyond = f": beyond {LARGEST:g} in size" if math.isfinite(value) else ""
            return idea_failed(_BAD, f"its {name} is {value:g}{beyond}")
    return Scored(metrics=scores)


def _number(value: object) -> float | None:
    """Return a value as a float, which may be infinite or NaN; None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _failed(detail: str) -> MachineFailed:
    return machine_failed(MachineFailure.SCORER, detail)
