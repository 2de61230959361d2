"""Private folders of trials on a node's local disk: create, find and sweep them.

A folder is named `hpcsci-TRIAL-OWNER-PID-RANDOM`. TRIAL is a hash of the trial's folder, OWNER a
hash of campaign, host and user. The host is included because `scratch` may turn out to be a shared
file system. Names are short because candidates create sockets in these folders, and a socket's path
is limited to 107 bytes.

A worker holds a lock (flock(2)) on its folder. A folder counts as left by a killed worker if nobody
holds its lock and its process is gone. Neither alone is proof: a folder exists before it is locked,
and another job's processes may not be visible.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from pydantic import ValidationError

from hpcscientist.execution import folders
from hpcscientist.execution.sandbox.host import HostUnfit, scratch_base
from hpcscientist.files.handed import read_regular
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.site import Host
from hpcscientist.records.trial import TrialSpec

_SLACK_S = 2.0  # a process's start time moves when clocks are set


@contextmanager
def private_folder(spec: TrialSpec, paths: TrialPaths) -> Iterator[Path]:
    """Create a private folder for a trial, and remove it at the end.

    Raises HostUnfit and OSError.
    """
    base = scratch_base(spec.host)
    prefix = f"{_of_trial(paths)}{_owner(spec)}-{os.getpid()}-"
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
    try:
        with _locked(folder):
            yield folder
    finally:
        folders.remove(folder)


def sweep(spec: TrialSpec, paths: TrialPaths) -> bool:
    """Remove what killed workers of the campaign left on this node.

    Returns whether any of it belonged to this trial. Raises HostUnfit and OSError.
    """
    mine = False
    for folder in scratch_base(spec.host).glob(f"hpcsci-*-{_owner(spec)}-*"):
        if _is_left_over(folder):
            mine = mine or folder.name.startswith(_of_trial(paths))
            with contextlib.suppress(OSError):  # another worker sweeps too
                folders.remove(folder)
    return mine


def remove_of(paths: TrialPaths) -> None:
    """Remove a trial's private folders on this machine. Call it when no worker runs the trial."""
    try:
        base = scratch_base(_host_of(paths))
    except HostUnfit:
        return
    for folder in base.glob(f"{_of_trial(paths)}*"):
        if folder.stat(follow_symlinks=False).st_uid == os.getuid():
            folders.remove(folder)


def _of_trial(paths: TrialPaths) -> str:
    return f"hpcsci-{_short(os.fsencode(paths.root.absolute()))}-"


def _owner(spec: TrialSpec) -> str:
    owner = f"{spec.provenance.campaign_id}\n{socket.gethostname()}\n{os.getuid()}"
    return _short(owner.encode())


def _short(name: bytes) -> str:
    return hashlib.sha256(name).hexdigest()[:10]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # no locks on this file system
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _is_left_over(folder: Path) -> bool:
    try:
        info = folder.stat(follow_symlinks=False)
        pid = int(folder.name.split("-")[3])
        if info.st_uid != os.getuid() or folder.is_symlink() or _began_before(pid, info.st_mtime):
            return False
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (OSError, ValueError, LookupError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # no locks on this file system: rely on the process check alone
    finally:
        os.close(descriptor)
    return True


def _began_before(pid: int, moment: float) -> bool:
    """Return whether process `pid` exists and may have started before `moment`."""
    try:
        return bool(psutil.Process(pid).create_time() <= moment + _SLACK_S)
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True


def _host_of(paths: TrialPaths) -> Host:
    try:
        return Host.model_validate_json(json.dumps(json.loads(read_regular(paths.spec))["host"]))
    except (OSError, ValueError, LookupError, TypeError, ValidationError):
        return Host()
