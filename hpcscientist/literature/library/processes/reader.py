"""The fork server and its forks, which read sources; each fork may crash, hang or be killed.

A build starts it as `python -m hpcscientist.literature.library.processes.reader FD PARENT
MODULE…`, with one end of a socket. The fork server imports what readers need and reads nothing
itself. It makes a fork for each reader that `forks.Forks` requests. It ends, with all its forks,
when the socket is closed or when the process that started it ends.
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
from typing import TYPE_CHECKING

from hpcscientist.system.lean import start_quickly, without
from hpcscientist.system.processes import PR_SET_PDEATHSIG, prctl

if TYPE_CHECKING:  # `main` imports what it brings, and that without NumPy
    from hpcscientist.literature.library.processes.pool import Work

MESSAGE = 1 << 16  # bytes; more than any request has
_EXTRACTION = "hpcscientist.literature.library.processes.extraction"
_TICK_S = 0.01


def serve(connection: Connection, parent: int) -> None:
    """Do the work that arrives on a connection until it is closed."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before prctl took effect
        return
    connection.send(os.getpid())  # marks the process as started: delays are the sources' from now
    while True:
        try:
            work: Work = connection.recv()
            for output in work.outputs():
                connection.send(output)
        except (EOFError, ConnectionError):
            return


class ForkServer:
    """Makes forks, and reports how they ended. Has one thread: a fork of several may hang."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._alive: dict[int, int] = {}

    def run(self) -> None:
        """Serve requests until the socket is closed; then end all forks."""
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
        gc.freeze()  # else the first collection in each fork would copy the memory of all objects
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
            os._exit(status)  # exit handlers belong to the fork server

    def _ended(self, number: int, patience_s: float) -> int:
        """Return the exit status of a fork, as Popen does; kill it if it does not end by itself."""
        pid = self._alive.pop(number, None)
        if pid is None:  # a fork of an earlier server, and gone with it
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
    """Import a module that forks will need. An error is ignored: using the module raises it."""
    with contextlib.suppress(Exception):
        found = importlib.import_module(module)
        getattr(found, "prepare", lambda: None)()


def main(handle: int, parent: int, modules: Sequence[str]) -> None:
    """Import modules, then serve on a socket until it is closed or the parent ends."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:
        start_quickly()
        with without("numpy"):  # Arrow would import it, but needs no NumPy arrays here
            importlib.import_module(_EXTRACTION)
        for module in modules:
            _prepare(module)
        ForkServer(socket.socket(fileno=handle)).run()
    os._exit(0)  # Python's own shutdown would take longer than making a fork


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
