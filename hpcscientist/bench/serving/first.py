"""Measures the time to the first token of a job, in a process that starts as a job's driver does.

    python -m hpcscientist.bench.serving.first

It reads a `Beginning` as a line of JSON. It answers with lines: `told TEXT` for progress, then
`first SECONDS`, the time since the epoch at which the token arrived.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcscientist.bench.serving import prompts
from hpcscientist.bench.serving.arms import Ground, whole
from hpcscientist.config.settings import Settings
from hpcscientist.errors import HpcsciError, ServingError
from hpcscientist.files.text import one_line
from hpcscientist.records.base import Record
from hpcscientist.records.site import Site
from hpcscientist.system import processes

_MODULE = "hpcscientist.bench.serving.first"


class Beginning(Record):
    """What to serve, and where."""

    root: Path
    model: Path
    site: Site
    settings: Settings


def seconds(ground: Ground, settings: Settings) -> float:
    """Return the seconds from a process's start to its first token. Raises ServingError.

    The process leaves nothing behind, and ends with this one.
    """
    beginning = Beginning(root=ground.root, model=ground.model, site=ground.site, settings=settings)
    began = time.time()
    with _started() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(beginning.model_dump_json() + "\n")
            process.stdin.flush()
        came, last = 0.0, ""
        for line in process.stdout:
            kind, _, last = line.rstrip("\n").partition(" ")
            if kind == "first":
                came = float(last)
            else:
                ground.tell(last)
    if not came:
        raise ServingError(f"no first token: {last or f'status {process.returncode}'}")
    return came - began


@contextmanager
def _started() -> Iterator[subprocess.Popen[str]]:
    """Start the process and wait for its end; on an exception it first stops its plane.

    The terminal's Ctrl-C does not reach it: a second signal would interrupt that shutdown.
    """
    with subprocess.Popen(
        [sys.executable, "-P", "-m", _MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            yield process
        except BaseException:
            process.send_signal(signal.SIGINT)
            for _ in process.stdout or ():
                pass  # until it has stopped its servers
            raise


def main() -> int:
    """Serve a model, generate one token, and stop the servers."""
    processes.prctl(processes.PR_SET_PDEATHSIG, signal.SIGINT)
    given = Beginning.model_validate_json(sys.stdin.readline())
    ground = Ground(given.root, given.model, given.site, lambda text: _say("told", text))
    try:
        with whole(ground, given.settings) as ours:
            ours.run(prompts.draw("first", 1, 1, 1, given.settings.ideation), 1)
            _say("first", repr(time.time()))
    except HpcsciError as error:
        _say("told", str(error))
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _say(kind: str, text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(kind, one_line(text), flush=True)


if __name__ == "__main__":
    sys.exit(main())
