"""Runs one trial as a process on this machine.

`python -m hpcscientist.worker TRIAL_FOLDER [RUN [JOB_FOLDER]]`. Without RUN it runs whichever run
the folder's spec asks for. The worker ignores JOB_FOLDER: a later driver finds the worker by that
argument.

`python -m hpcscientist.worker --fork` runs no trial itself. It forks a worker for each request that
comes by the socket that is its stdin; see `WorkerForks` in `execution.backends.local`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys

from hpcscientist.system.lean import start_quickly, without


def main() -> None:
    """Run the trial that the command line names, or, in a fork, the request."""
    words = sys.argv[1:]
    if not 1 <= len(words) <= 3:
        sys.exit("hpcsci worker: python -m hpcscientist.worker TRIAL_FOLDER [RUN [JOB_FOLDER]]")
    start_quickly()
    with without("numpy", "cloudpickle"):
        from hpcscientist.worker.entry import run_trial  # noqa: PLC0415
    if words == ["--fork"]:
        words = _forked()
    run_trial(words[0], int(words[1]) if len(words) > 1 else None)


def _forked() -> list[str]:
    """Fork for each request, and answer with the process id; the answer 0 says that it can begin.

    Return in each fork what it is to run: a worker in a session of its own, with the request's log
    and its additions to the environment. Raises SystemExit once the driver has closed the socket,
    and OSError.
    """
    gc.freeze()
    os.write(0, b"0")
    for line in sys.stdin.buffer:
        _reap()  # not as soon as they end: the driver looks at the process that it was told
        if pid := os.fork():
            os.write(0, b"%d" % pid)
            continue
        os.setsid()
        request = json.loads(line)
        log = os.open(request["log"], os.O_WRONLY | os.O_APPEND)
        for number, target in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
            os.dup2(number, target)
        os.environ.update(request["environment"])
        words: list[str] = request["words"]
        return words
    _reap()
    sys.exit()


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


if __name__ == "__main__":
    main()
