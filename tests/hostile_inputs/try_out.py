"""Runs the command line in this process, and holds its outcome against what is promised."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from hpcscientist.cli.main import run

OUTCOMES = {0, 1, 2, 3}


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
    said, told = (io.TextIOWrapper(io.BytesIO(), "utf-8", "replace") for _ in range(2))
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(said):
        code = run(arguments)
    said.seek(0)
    text = said.read()
    lines = text.splitlines()
    shown = f"{arguments}: exit {code}\n{text[-3000:]}"
    assert code in OUTCOMES, shown
    assert "unexpected" not in text, shown
    assert "Traceback" not in text, shown
    if code in (1, 2):
        errors = [line for line in lines if line.startswith("hpcsci: ")]
        assert errors == lines[-1:], shown
        assert len(errors[0]) > len("hpcsci: "), shown
    return code
