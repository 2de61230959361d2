"""The process whose forks read, and our end of the line to it.

What a reader imports takes most of a second, and much longer from a file system that a thousand
others use too. So one process imports it, and all readers are forks of that one: they are there
in milliseconds and share its memory. It is not a fork of this process, whose keys and threads
are no business of what parses strangers' files.
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
_PATIENCE_S = 5.0  # its forks are killed, and it ends
_REPLY = 64  # bytes

# What Python and a shared library need to start: no key of any service, whatever its variable
# is called.
_PASSED = frozenset(
    ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD")
)
_PASSED_KINDS = ("LC_", "PYTHON", "MALLOC_")
# One thread each: as many processes as cores are at work, and what forks should have no others.
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


class Forks:
    """Starts that process when the first fork is asked for, and again after its end.

    `modules` are imported in it before the next fork; those with a function `prepare` are asked
    to. Used as a context, it ends the process.
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
        """End the process."""
        self.close()

    def start(self, modules: Iterable[str]) -> None:
        """Start the process now, and have it import modules while this one does something else."""
        self.modules.update(modules)
        self._started()

    def begin(self, number: int) -> int:
        """Have a fork made; return our end of its socket. Who listens finds out if that fails."""
        control = self._started()
        ours, theirs = socket.socketpair()
        request = " ".join(["fork", str(number), *sorted(self.modules)]).encode()
        self._forked = True
        with theirs, contextlib.suppress(OSError):
            socket.send_fds(control, [request], [theirs.fileno()])
        return ours.detach()

    def end(self, number: int, patience_s: float) -> int:
        """Return how a fork ended, as Popen does; it is killed if it does not end by itself.

        Where the process of which it is a fork has ended, what is returned is how that one did.
        """
        if self._control is None:  # another fork was asked after first
            return -signal.SIGKILL
        try:
            self._control.send(f"end {number} {patience_s}".encode())
            reply = self._control.recv(_REPLY)
        except OSError:
            reply = b""
        return int(reply) if reply else self.close()

    def close(self) -> int:
        """End the process and all its forks; return its own status as Popen does."""
        if self._process is None or self._control is None:
            return -signal.SIGKILL
        if not (self._forked and _ends(self._control)):
            self._process.kill()
        self._control.close()
        try:
            status = self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:  # its forks are told by the kernel
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
                stdout=subprocess.DEVNULL,  # parsers of PDF print their complaints
                stderr=subprocess.DEVNULL,
                pass_fds=(handle,),
                process_group=0,  # Ctrl-C is for us to handle
            )
        return self._control


def _ends(control: socket.socket) -> bool:
    """Close our half of a line, and tell whether the other half is closed soon."""
    control.settimeout(_PATIENCE_S)
    try:
        control.shutdown(socket.SHUT_WR)
        return not control.recv(_REPLY)
    except TimeoutError:
        return False
    except OSError:  # it has ended before
        return True


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in own.items() if k in _PASSED or k.startswith(_PASSED_KINDS)}
    return {**kept, **_ONE_THREAD}


# Readers of PDFs, which a build is sure to need, are begun before its own modules are imported.
#
# So only what starts quickly is imported here.

_PDF: Final = "hpcscientist.literature.sources.pdf"
_LOOKED_AT: Final = 1000  # files of a folder


def forks_for(inputs: Sequence[Path], out: Path) -> Forks:
    """Return what a first build of `out` forks its readers of, started if there are PDFs.

    A folder is looked at, those below it are not. Whoever builds again may have nothing to read.
    """
    forks = Forks()
    if not LibraryPaths(out).contents.exists() and any(map(_has_pdfs, inputs)):
        forks.start([_PDF])
    return forks


def _has_pdfs(given: Path) -> bool:
    try:
        with os.scandir(given) as found:
            return any(_is_pdf(entry.name) for entry in islice(found, _LOOKED_AT))
    except OSError:  # no folder, or one that the build itself will complain of
        return _is_pdf(given.name)


def _is_pdf(name: str) -> bool:
    return name.lower().endswith(".pdf")
