"""Signals that ask a command to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from hpcscientist.errors import Interrupted

# SIGUSR1: what Slurm sends some time before a job's limit.
_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


def unwind_on(*numbers: signal.Signals) -> None:
    """Have signals end this command as Ctrl-C does: nothing half made stays, no job, no process."""
    _raise_at_first(numbers, KeyboardInterrupt)


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first signal to stop into Interrupted."""
    _raise_at_first(_STOP, lambda name: Interrupted(f"stopped by {name}"))
    yield


def _raise_at_first(
    numbers: Iterable[signal.Signals], error: Callable[[str], BaseException]
) -> None:
    """Raise at the first signal; what it ends is not disturbed by another.

    A terminal that closes may send two.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        for other in _STOP:
            signal.signal(other, signal.SIG_IGN)
        raise error(signal.Signals(number).name)

    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
            signal.signal(number, on_signal)
