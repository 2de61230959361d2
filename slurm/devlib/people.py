"""The ordinary user, and what an ordinary user's containers need of the machine.

Clusters that name the same user share them: the last one that goes takes the user along. Each
cluster holds a lock on the user's home, for in another namespace of processes it is not seen.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from devlib import processes
from devlib.base import Failed, run, say, wait_until
from devlib.places import Cluster, Places

_MARK = "made by hpcsci devcluster"
_FUSE = Path("/dev/fuse")


@contextlib.contextmanager
def user_made(cluster: Cluster) -> Iterator[int]:
    """Make the user, unless another cluster did, and hold them. Raises Failed.

    Yields a descriptor: as long as a process has it open, no other cluster removes the user.
    """
    held = _make_user(cluster)
    try:
        yield held
    finally:
        os.close(held)


def _make_user(cluster: Cluster) -> int:
    places, name = cluster.places, cluster.user
    with _one_at_a_time():
        found = {entry.pw_name: entry for entry in pwd.getpwall()}.get(name)
        if found is not None and found.pw_gecos != _MARK:
            raise Failed(f"the user {name} is not ours: HPCSCI_DEVCLUSTER_USER=ANOTHER_NAME up")
        if found is None:
            home = places.homes / name
            home.parent.mkdir(parents=True, exist_ok=True)
            where = ("--create-home", "--home-dir", home, "--shell", "/bin/bash")
            run(["useradd", *where, "--comment", _MARK, name])
            home.chmod(0o700)
            with (home / ".profile").open("a") as profile:  # for `su - researcher`
                profile.write(f"export SLURM_CONF={places.slurm_conf}\n")
        else:
            home = Path(found.pw_dir)
            if not home.is_dir():
                raise Failed(
                    f"{home} is gone, {name}'s home: HPCSCI_DEVCLUSTER_USER=ANOTHER_NAME up"
                )
        held = os.open(home, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_SH)
        return held


def remove_users(places: Places) -> None:
    """Remove users that `up` made, with homes and processes, but for those of living clusters.

    Raises Failed.
    """
    with _one_at_a_time():
        used = set()
        for other in processes.supervisors().values():
            with contextlib.suppress(Failed):
                used.add(Cluster.load(other).user)
        ours = [entry for entry in pwd.getpwall() if entry.pw_gecos == _MARK]
        for entry in [each for each in ours if each.pw_name not in used and not _is_held(each)]:
            if not wait_until(partial(_end_all, entry.pw_uid)):
                name = entry.pw_name
                raise Failed(f"processes of {name} cannot be killed: see `ps -u {name}`")
            run(["userdel", entry.pw_name])
            home = Path(entry.pw_dir)
            shutil.rmtree(home, ignore_errors=True)
            for folder in (home.parent, home.parent.parent):
                if folder != places.folder:
                    with contextlib.suppress(OSError):
                        folder.rmdir()


def open_fuse() -> None:
    """Open /dev/fuse to users, as Debian's udev does, which not every machine has."""
    if not _FUSE.exists():
        run(["modprobe", "fuse"], check=False)
    if not _FUSE.exists():
        say("warning: no /dev/fuse here: an ordinary user's containers will not start")
        return
    _FUSE.chmod(0o666)


def _is_held(entry: pwd.struct_passwd) -> bool:
    """Say whether a living cluster of any namespace uses a user."""
    try:
        home = os.open(entry.pw_dir, os.O_RDONLY)
    except OSError:  # the home has gone with its cluster's folder
        return False
    try:
        fcntl.flock(home, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(home)
    return False


def _end_all(uid: int) -> bool:
    found = processes.of_user(uid)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not found


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Let clusters in other folders wait. On a folder, so that no file is left."""
    held = os.open("/var/lib", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)
