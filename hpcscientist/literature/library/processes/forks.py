"""Starts the fork server, whose forks read sources, and talks to it.

A reader's imports take most of a second, and much longer on a file system that a thousand other
processes use. So one process does the imports, and all readers are forks of it: they start in
milliseconds and share its memory. The fork server is not a fork of this process, since code that
parses untrusted files must not see this process's keys and threads.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final

from hpcscientist.literature.library.paths import LibraryPaths

READER = "hpcscientist.literature.library.processes.reader"
_PATIENCE_S = 5.0  # for the fork server to kill its forks and end
_REPLY = 64  # bytes

# The variables that Python and a shared library need to start. Others may hold a service's key.
_PASSED = frozenset(
    ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD")
)
_PASSED_KINDS = ("LC_", "PYTHON", "MALLOC_")
# One thread each: there are as many processes as cores, and a process that forks must have only
# one thread.
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


class Forks:
    """Starts the fork server when the first fork is requested, and again after it has ended.

    The fork server imports `modules` before the next fork, and calls their function `prepare` if
    they have one. As a context manager, it ends the fork server on exit.
    """

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._forked = False

    def __enter__(self) -> Forks:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the fork server."""
        self.close()

    def start(self, modules: Iterable[str]) -> None:
        """Start the fork server now: it imports modules while this process does other work."""
        self.modules.update(modules)
        self._started()

    def begin(self, number: int) -> int:
        """Request a fork; return our end of its socket.

        If the request fails, reading from the socket shows that.
        """
        control = self._started()
        ours, theirs = socket.socketpair()
        request = " ".join(["fork", str(number), *sorted(self.modules)]).encode()
        self._forked = True
        with theirs, contextlib.suppress(OSError):
            socket.send_fds(control, [request], [theirs.fileno()])
        return ours.detach()

    def end(self, number: int, patience_s: float) -> int:
        """Return the exit status of a fork, as Popen does; kill it if it does not end by itself.

        If the fork server itself has ended, its exit status is returned.
        """
        if self._control is None:  # closed already, perhaps by `end` of another fork
            return -signal.SIGKILL
        try:
            self._control.send(f"end {number} {patience_s}".encode())
            reply = self._control.recv(_REPLY)
        except OSError:
            reply = b""
        return int(reply) if reply else self.close()

    def close(self) -> int:
        """End the fork server and all its forks; return its own exit status as Popen does."""
        if self._process is None or self._control is None:
            return -signal.SIGKILL
        if not (self._forked and _ends(self._control)):
            self._process.kill()
        self._control.close()
        try:
            status = self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:  # the kernel then kills its forks (PR_SET_PDEATHSIG)
            self._process.kill()
            status = self._process.wait()
        self._process = self._control = None
        self._forked = False
        return status

    def _started(self) -> socket.socket:
        if self._control is not None:
            return self._control
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            handle = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", READER, str(handle), str(os.getpid()), *self.modules],
                env=_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # PDF parsers print warnings
                stderr=subprocess.DEVNULL,
                pass_fds=(handle,),
                process_group=0,  # so that Ctrl-C reaches only this process
            )
        return self._control


def _ends(control: socket.socket) -> bool:
    """Close our half of a connection; return whether the other half is closed soon."""
    control.settimeout(_PATIENCE_S)
    try:
        control.shutdown(socket.SHUT_WR)
        return not control.recv(_REPLY)
    except TimeoutError:
        return False
    except OSError:  # the fork server has already ended
        return True


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in own.items() if k in _PASSED or k.startswith(_PASSED_KINDS)}
    return {**kept, **_ONE_THREAD}


# If a build is sure to read PDFs, the fork server starts before the build's own modules are
# imported. So this module imports only what loads quickly.

_PDF: Final = "hpcscientist.literature.sources.pdf"
_LOOKED_AT: Final = 1000  # entries of a folder to look at


def forks_for(inputs: Sequence[Path], out: Path) -> Forks:
    """Return the fork server for a build of `out`, started if the inputs have PDFs.

    Only the top level of a folder is checked. For a repeated build it is not started, since there
    may be nothing to read.
    """
    forks = Forks()
    if not LibraryPaths(out).contents.exists() and any(map(_has_pdfs, inputs)):
        forks.start([_PDF])
    return forks


def _has_pdfs(given: Path) -> bool:
    try:
        with os.scandir(given) as found:
            return any(_is_pdf(entry.name) for entry in islice(found, _LOOKED_AT))
    except OSError:  # not a folder, or one that the build will report as unreadable
        return _is_pdf(given.name)


def _is_pdf(name: str) -> bool:
    return name.lower().endswith(".pdf")
