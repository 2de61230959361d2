"""Measures the time to the first token of a job, in a process that starts as a job's driver does.

    python -m hpcscientist.bench.serving.first

It reads a `Beginning` as a line of JSON. It answers with lines: `told TEXT` for progress, then
`first SECONDS`, the time since the epoch at which the token arrived.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hpcscientist.bench.serving.arms import ServingGround, draw_requests, whole
from hpcscientist.config.settings import Settings
from hpcscientist.errors import HpcsciError, ServingError
from hpcscientist.files.text import one_line
from hpcscientist.records.base import Record
from hpcscientist.records.site import Site
from hpcscientist.system import processes

# Evicts files from the page cache, so that a start reads them from disk.


_ASK = """\
import sysconfig
print(*{sysconfig.get_path(name) for name in ("purelib", "platlib")}, sep="\\n")
"""


def evict(folders: Iterable[Path]) -> None:
    """Evict all files below folders from the page cache.

    Files that another process has mapped, or that cannot be read, stay in memory.
    """
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                with contextlib.suppress(OSError):
                    _forget(os.path.join(place, name))  # noqa: PTH118 (some ten thousand files)


def packages(python: Sequence[str]) -> list[Path]:
    """Return the package folders of an interpreter; empty if it does not report them."""
    done = subprocess.run([*python, "-c", _ASK], capture_output=True, text=True, check=False)
    return [path for path in map(Path, done.stdout.splitlines()) if path.is_dir()]


def _forget(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        with contextlib.suppress(OSError):
            os.fdatasync(descriptor)  # unwritten pages would stay in memory
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


_MODULE = "hpcscientist.bench.serving.first"


class Beginning(Record):
    """What to serve, and where."""

    root: Path
    model: Path
    site: Site
    settings: Settings


def seconds(ground: ServingGround, settings: Settings) -> float:
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
    ground = ServingGround(given.root, given.model, given.site, lambda text: _say("told", text))
    try:
        with whole(ground, given.settings) as ours:
            ours.run(draw_requests("first", 1, 1, 1, given.settings.ideation), 1)
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
