"""Rooms: process, mount and network namespaces for commands; as one closes, all in it ends.

Process 1 of a room ends when the pipe to it closes, and with it the kernel ends every process of
the room and takes away every mount and bridge: also those of daemons that nobody knows of, and
also where this program is killed with -9. What commands write to /tmp, /var/tmp and /dev/shm is
the room's. In a room without the machine's network no port can be taken, by whom or for whom ever.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_INIT = Path(__file__).with_name("room_init.py")
_READY_S = 60
_END_S = 120
_TEMPORARY = {"tmp": "/tmp", "vartmp": "/var/tmp"}


class RoomFailed(Exception):
    """A room could not be made or emptied; one line."""


class Room:
    """An open room. `folder`: where its /tmp and /var/tmp lie; without one it has the machine's.

    `network`: whether it has the machine's, or one of its own with nothing but a loopback.
    """

    def __init__(self, folder: Path | None, network: bool = True) -> None:
        binds = []
        for name, place in _TEMPORARY.items() if folder else ():
            assert folder is not None
            (folder / name).mkdir(exist_ok=True)
            (folder / name).chmod(0o1777)
            binds.append(f"{place}={folder / name}")
        own = ("--pid", "--mount") if network else ("--pid", "--mount", "--net")
        self._enter = ["nsenter", *own]
        self._unshare = subprocess.Popen(
            ["unshare", *own, "--fork", "--mount-proc", sys.executable, "-I", str(_INIT), *binds],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            self._await_ready()
            self.first = _child(self._unshare.pid)
        except BaseException:
            self.close()
            raise

    def _await_ready(self) -> None:
        out = self._unshare.stdout
        assert out is not None
        said = b""
        deadline = time.monotonic() + _READY_S
        while b"ready\n" not in said:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([out], [], [], left)[0]:
                raise RoomFailed(f"namespaces are not ready within {_READY_S} s")
            block = os.read(out.fileno(), 4096)
            if not block:
                words = said.decode(errors="replace").strip().splitlines() or ["no word"]
                raise RoomFailed(f"cannot make namespaces (root is needed): {words[-1]}")
            said += block

    def start(
        self, argv: Sequence[str | Path], cwd: Path, env: Mapping[str, str], output: Path
    ) -> subprocess.Popen[bytes]:
        """Start a command in the room: no terminal, no input, its output appended to a file."""
        # Signals too: what a shell starts in the background ignores those of the keyboard.
        usual = ("env", f"--chdir={cwd}", "--default-signal=INT,QUIT,TERM,HUP")
        line = [*self._enter, f"--target={self.first}", "--", *usual, *map(str, argv)]
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("ab") as file:
            return subprocess.Popen(
                line,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(
        self,
        argv: Sequence[str | Path],
        cwd: Path,
        env: Mapping[str, str],
        output: Path,
        limit_s: float,
    ) -> int:
        """Run a command to its end and return its exit status; 124 if it hung."""
        process = self.start(argv, cwd, env, output)
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return 124
        finally:
            stop(process)

    def close(self) -> None:
        """End everything in the room. Raises RoomFailed."""
        for pipe in (self._unshare.stdin, self._unshare.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._unshare.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise RoomFailed(f"processes of {self._unshare.pid} do not end: see /proc") from None


def stop(process: subprocess.Popen[bytes], gently_s: float = 0.0) -> None:
    """End a command that `Room.start` started, with the rest of its group."""
    for number, patience in ((signal.SIGTERM, gently_s), (signal.SIGKILL, 60.0)):
        if not patience or not _group_lives(process):
            continue
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + patience
        while _group_lives(process) and time.monotonic() < deadline:
            time.sleep(0.05)


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        _reap_members(process.pid)
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _reap_members(group: int) -> None:
    """Reap what of a group became ours as its first process ended: not reaped, it lives on.

    It does where this process is a subreaper (prctl(2)); elsewhere process 1 has reaped it. A room
    does not end before all that is in it is reaped, also what was started from outside.
    """
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass


def _child(parent: int) -> int:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                    return int(entry.name)
    raise RoomFailed("the room's first process has ended")
