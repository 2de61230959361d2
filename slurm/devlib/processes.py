"""The cluster's processes: each known by process id and start time, so none is taken for another.

`start` records a process before it may begin: no process is ever unknown.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devlib import cgroups, kernel
from devlib.base import Failed, wait_until, write
from devlib.places import Places

SUPERVISOR = "supervisor"
_EXITING = 4  # PF_EXITING among a process's flags
_KILLED = 1 << (signal.SIGKILL - 1)  # among pending signals
_STARTS_S = 30.0


def start_time(pid: int) -> str | None:
    """Return the start time of a living process in clock ticks; None where there is none.

    A zombie does not live. (The first of a namespace is one only when the others are gone.)
    """
    row = _stat(pid)
    return None if row is None or row[0] in "ZX" else row[19]


def pid_of(places: Places, name: str) -> int | None:
    """Return the process id of a daemon or a node's first process; None if it does not live."""
    try:
        number, started = (places.run / f"{name}.pid").read_text().split()
        pid = int(number)
    except (OSError, ValueError):
        return None
    return pid if start_time(pid) == started else None


def is_ending(pid: int) -> bool:
    """Say whether a process was killed already: it may look alive for seconds."""
    row = _stat(pid)
    if row is None or int(row[6]) & _EXITING:
        return True
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(("SigPnd", "ShdPnd")) and int(line.split()[1], 16) & _KILLED:
                return True
        return False
    return True


def end(places: Places, name: str, gently_s: float = 0.0, within_s: float = 60.0) -> None:
    """End a process and wait for it: SIGTERM for `gently_s` seconds, SIGKILL. Raises Failed."""
    for number, patience in ((signal.SIGTERM, gently_s), (signal.SIGKILL, within_s)):
        if patience and pid_of(places, name):
            _signal(places, name, number)
            if wait_until(lambda: not pid_of(places, name), patience):
                return
    if pid := pid_of(places, name):
        raise Failed(f"{name} cannot be killed: see /proc/{pid}/stack")


def enter(places: Places, name: str) -> None:
    """Move this process into a node's cgroups and namespaces; its children are that node's.

    Raises Failed and OSError.
    """
    pid = pid_of(places, name)
    if pid is None:
        raise Failed(f"{name} does not run: slurm/devcluster status")
    spaces = kernel.open_spaces(pid)
    cgroups.join(places, name)
    kernel.join(spaces)


@dataclass(frozen=True)
class Task:
    """A process to be started.

    inside: the node in whose namespaces it is. spaces: those made anew for it, below these.
    prepare: runs in it, before its program. connect: runs here, with its process id, meanwhile.
    keep: descriptors it inherits. hold: it gets as its last argument the number of a descriptor,
    of a socket to whoever starts it.
    """

    name: str
    argv: Sequence[str | Path]
    inside: str = ""
    spaces: int = 0
    prepare: Callable[[], None] | None = None
    connect: Callable[[int], None] | None = None
    keep: Sequence[int] = ()
    hold: bool = False


def start(places: Places, task: Task) -> socket.socket:
    """Start a process, detached, its output appended to log/NAME.out; return a socket to it.

    The socket tells nothing unless the task holds the other end. Raises Failed.
    """
    name = task.name
    ours, theirs = socket.socketpair()
    # The kernel tells the child's process id as it is seen from here.
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    ours.settimeout(_STARTS_S)
    words = [str(word) for word in task.argv] + ([str(theirs.fileno())] if task.hold else [])
    middle = os.fork()
    if middle == 0:
        try:
            _descend(places, task)
            kept = {theirs.fileno(), *task.keep}
            _become_daemon(places, name, kept)
            if task.prepare:
                task.prepare()
            theirs.send(b"hello")
            # Were `up` killed meanwhile, this is its end, too: nothing runs without a record.
            if theirs.recv(9) == b"go":
                for descriptor in kept if task.hold else kept - {theirs.fileno()}:
                    os.set_inheritable(descriptor, True)
                os.execve(words[0], words, places.environment)
        except BaseException as failure:  # noqa: BLE001 (a fork's edge)
            os.write(2, f"devcluster: {name} does not start: {failure}\n".encode())
        finally:
            os._exit(1)
    theirs.close()
    os.waitpid(middle, 0)
    try:
        pid = _heard_from(ours)
        if pid is None:
            raise Failed(f"{name} does not start: {last_words(places, name)}")
        write(places.run / f"{name}.pid", f"{pid} {start_time(pid)}\n")
        if task.connect:
            task.connect(pid)
        ours.send(b"go")
    except BaseException:
        ours.close()  # which is the child's end
        raise
    return ours


def last_words(places: Places, name: str) -> str:
    """Return the last two lines that a process said, for an error message."""
    try:
        lines = (places.log / f"{name}.out").read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return " / ".join(line.strip() for line in lines[-2:]) or "it said nothing"


def supervisors() -> dict[int, Places]:
    """Return the supervisors of all living clusters of this machine, by their command lines."""
    found = {}
    for pid in _all():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[2:4]
            of_root = Path(f"/proc/{pid}").stat().st_uid == 0
            if of_root and len(words) == 2 and words[1] == SUPERVISOR.encode():
                program = Path(os.fsdecode(words[0]))
                if program.parts[-2:] == ("run", "first.py") and start_time(pid):
                    found[pid] = Places(program.parent.parent)
    return found


def of_user(uid: int) -> list[int]:
    """Return the living processes of a user."""
    found = []
    for pid in _all():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}").stat().st_uid == uid and start_time(pid):
                found.append(pid)
    return found


def _all() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _descend(places: Places, task: Task) -> None:
    """Go on as a child in the wanted namespaces."""
    steps: list[Callable[[], None]] = []
    if task.inside:
        steps.append(lambda: enter(places, task.inside))
    if task.spaces:
        steps.append(lambda: kernel.unshare(task.spaces))
    for step in steps or [lambda: None]:
        step()
        # A namespace of process ids takes effect in the next child, which then belongs to the
        # first process of the namespace around it.
        if os.fork():
            os._exit(0)


def _become_daemon(places: Places, name: str, kept: set[int]) -> None:
    """Forget the caller's session, signals, folder and descriptors: above all pipes and locks."""
    os.setsid()
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o022)
    os.chdir("/")
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    log = os.open(places.log / f"{name}.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    last = 2
    for descriptor in [*sorted(kept), 1 << 20]:
        os.closerange(last + 1, descriptor)
        last = descriptor


def _heard_from(ours: socket.socket) -> int | None:
    try:
        data, ancillary, *_ = ours.recvmsg(9, 256)
    except TimeoutError:
        return None
    if data != b"hello":
        return None
    pid: int = struct.unpack("3i", ancillary[0][2])[0]
    return pid


def _signal(places: Places, name: str, number: signal.Signals) -> None:
    pid = pid_of(places, name)
    if pid is None:
        return
    with contextlib.suppress(ProcessLookupError):
        pinned = os.pidfd_open(pid)
        try:
            if pid_of(places, name):  # still the same one
                signal.pidfd_send_signal(pinned, number)
        finally:
            os.close(pinned)


def _stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
