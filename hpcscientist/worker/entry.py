"""The worker: runs one trial, wherever a backend started it, and writes its result.

It imports no model code. A worker that is stopped kills the candidate's whole process tree and
writes nothing; a trial without a result is run again.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from hpcscientist import __version__
from hpcscientist.errors import Interrupted
from hpcscientist.execution import folders, presence, trial
from hpcscientist.files.atomic import NO_SPACE
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.trial import TrialSpec
from hpcscientist.results.store import read_result, write_result

_STOPPED_EXIT = 143  # as a shell reports SIGTERM
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run_trial(trial_dir: str, run: int | None = None) -> None:
    """Run the trial of a prepared folder and write its result. Call from the main thread.

    `run`: the run that the caller means. This does nothing if the spec asks for another run by now,
    if this run already has a result, or if the trial was given to another worker. Raises SystemExit
    when stopped by a signal or when there is no space for the result: then none is written.
    """
    paths = TrialPaths(Path(trial_dir).absolute())
    try:
        spec = _as_run_here(folders.read_spec(paths))
    except folders.UnsignedSpec as error:
        sys.exit(f"hpcsci worker: {error}")  # the driver writes the spec again
    if run is not None and spec.run != run:
        return
    with _stop_requests() as stop:
        known = read_result(paths, spec)
        if known is not None:
            return
        mine = presence.announce(paths, spec.run)
        # This worker may have been stopped for long since it read the spec.
        if not presence.is_current(paths, mine):
            return
        known = read_result(paths, spec)
        if known is not None:
            return
        # From here on a result's existence means that this run has ended.
        paths.result.unlink(missing_ok=True)
        try:
            report = trial.run(spec, paths, stop, mine)
        except presence.Replaced:
            return
        except Interrupted:
            sys.exit(_STOPPED_EXIT)
        if not presence.is_current(paths, mine):
            return
        try:
            write_result(paths, spec, report)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            sys.exit(f"hpcsci worker: no space for {paths.result}: {error.strerror}")


def _as_run_here(spec: TrialSpec) -> TrialSpec:
    """Return the spec with this package's version in its provenance, as the result records it.

    A trial may have been queued for days while the package was upgraded.
    """
    known = spec.provenance
    if known.package_version == __version__:
        return spec
    own = {"package_version": __version__, "package_hash": ""}  # the driver's is not ours
    return spec.model_copy(update={"provenance": known.model_copy(update=own)})


@contextmanager
def _stop_requests() -> Iterator[threading.Event]:
    """Turn stopping signals into an event; restore the previous handlers afterwards."""
    stop = threading.Event()

    def request(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, request) for number in _STOPPING}
    # If our parent ignored SIGCHLD, the kernel would not report how our children ended.
    before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Slurm, or the process that started the driver, may have blocked them; that is inherited.
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    try:
        yield stop
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
