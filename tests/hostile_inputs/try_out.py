"""Runs the command line in this process, and holds its outcome against what is promised."""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from hpcscientist.cli.main import run

OUTCOMES = {0, 1, 2, 3}
HANGS_S = 300  # minutes, for what takes a second
MORE_MEMORY = 4 * 2**30  # bytes: what has no end must not fill the machine
UNEXPECTED = re.compile(r"unexpected [A-Z]\w+: |Traceback|MemoryError|RecursionError")


class Hangs(BaseException):
    """A command did not end."""


@contextlib.contextmanager
def ground() -> Iterator[Path]:
    """An empty folder to work in; environment, signals and working directory are put back."""
    before, environment = Path.cwd(), dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    with tempfile.TemporaryDirectory(prefix="odd-") as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(environment)
            for number, handler in handlers.items():
                signal.signal(number, handler)


def tried(arguments: Sequence[str]) -> int:
    """Run a command; see that it succeeds, or ends with one line that says why."""
    said, told = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape") for _ in range(2))
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(said), _limited(arguments):
        code = run(arguments)
    text, output = _read(said), _read(told)
    shown = f"{arguments}: exit {code}\n{text[-3000:]}"
    assert code in OUTCOMES, shown
    assert not UNEXPECTED.search(text), shown
    for line in (*text.split("\n"), *output.split("\n")):
        assert all(c.isprintable() or c in "\t" for c in line), f"{shown}\nhas {line[:300]!r}"
    if code in (1, 2):
        lines = text.splitlines()
        errors = [line for line in lines if line.startswith("hpcsci: ")]
        assert errors == lines[-1:], shown
        assert len(errors[0]) > len("hpcsci: "), shown
    return code


def _read(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


@contextlib.contextmanager
def _limited(arguments: Sequence[str]) -> Iterator[None]:
    """Bound time and memory, in this process."""

    def end(number: int, frame: object) -> None:
        raise Hangs(f"{arguments} did not end in {HANGS_S} s")

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, end)
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, hard))
    signal.alarm(HANGS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)
