"""Signals that ask a command to stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from hpcscientist.errors import Interrupted

# SIGUSR1: what Slurm sends some time before a job's limit.
_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


def unwind_on(*numbers: signal.Signals) -> None:
    """Have signals end this command as Ctrl-C does: nothing half made stays, no job, no process.

    What the first one ends is not disturbed by another: a terminal that closes may send two.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        for other in _STOP:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
            signal.signal(number, on_signal)


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first signal to stop into Interrupted; what it ends is not disturbed by another."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        for other in _STOP:
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(f"stopped by {signal.Signals(number).name}")

    for number in _STOP:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
            signal.signal(number, on_signal)
    yield
