"""The processes that read sources for a build; each may crash, hang or be killed at any time.

Started once a build, as `python -m hpcscientist.literature.library.processes.reader FD PARENT
MODULE…`, with one end of a socket. It imports what readers need and reads nothing itself: each
reader is a fork of it, made when `forks.Forks` asks for one. It ends, with all its forks, when the
socket is closed, and when the process that started it does.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from functools import cache
from multiprocessing.connection import Connection

from hpcscientist.literature.library.processes.pool import Work
from hpcscientist.system.lean import without
from hpcscientist.system.processes import PR_SET_PDEATHSIG, prctl

MESSAGE = 1 << 16  # bytes; more than any request has
_EXTRACTION = "hpcscientist.literature.library.processes.extraction"
# Objects that are made before those that refer to each other are looked for: what is read has
# many thousands of objects, and hardly any such.
_COLLECTED = 50_000
_TICK_S = 0.01


def serve(connection: Connection, parent: int) -> None:
    """Do what is asked for until the connection is closed."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we could ask to be told
        return
    connection.send(os.getpid())  # what is awaited now is the sources' doing, not our start
    while True:
        try:
            work: Work = connection.recv()
            for output in work.outputs():
                connection.send(output)
        except (EOFError, ConnectionError):
            return


class Server:
    """Makes forks, and tells how they ended. One thread: a fork of several may stand still."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._alive: dict[int, int] = {}

    def run(self) -> None:
        """Do what is asked for until the socket is closed; then end all forks."""
        try:
            while True:
                message, handles, _, _ = socket.recv_fds(self._control, MESSAGE, 1)
                if not message:
                    return
                what, number, *rest = message.decode().split()
                if what == "fork":
                    self._fork(int(number), handles[0], rest)
                else:
                    self._control.send(b"%d" % self._ended(int(number), float(rest[0])))
        except ConnectionError:
            return
        finally:
            for fork in list(self._alive):
                self._ended(fork, 0.0)

    def _fork(self, number: int, handle: int, modules: Sequence[str]) -> None:
        for module in modules:
            _prepare(module)
        gc.freeze()  # else the first collection in each fork copies the memory of all objects
        own = os.getpid()
        pid = os.fork()
        if pid:
            self._alive[number] = pid
            os.close(handle)
            return
        status = 1
        try:
            self._control.close()
            serve(Connection(handle), own)
            status = 0
        finally:
            os._exit(status)  # what is to be done at the end is the server's to do

    def _ended(self, number: int, patience_s: float) -> int:
        """Return how a fork ended, as Popen does; kill it if it does not end by itself."""
        pid = self._alive.pop(number, None)
        if pid is None:  # of a server before this one, and gone with it
            return -signal.SIGKILL
        until = time.monotonic() + patience_s
        while True:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= until:
                os.kill(pid, signal.SIGKILL)
                return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            time.sleep(_TICK_S)


@cache
def _prepare(module: str) -> None:
    """Import a module that forks will need. What is wrong with it is told where it is used."""
    with contextlib.suppress(Exception):
        found = importlib.import_module(module)
        getattr(found, "prepare", lambda: None)()


def main(handle: int, parent: int, modules: Sequence[str]) -> None:
    """Serve on a socket, as long as the parent lives; import modules first."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:
        with without("numpy"):  # for Arrow alone, which makes no arrays of numbers here
            importlib.import_module(_EXTRACTION)
        gc.set_threshold(_COLLECTED)
        for module in modules:
            _prepare(module)
        Server(socket.socket(fileno=handle)).run()
    os._exit(0)  # to take all that was imported down again takes longer than to make a fork


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
