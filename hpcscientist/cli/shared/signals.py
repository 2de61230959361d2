"""Handling of the signals that ask a command to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from hpcscientist.errors import Interrupted

# Slurm sends SIGUSR1 some time before a job's time limit.
_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


def unwind_on(*numbers: signal.Signals) -> None:
    """Make signals act like Ctrl-C, so that the command cleans up its files, jobs and processes."""
    _raise_at_first(numbers, KeyboardInterrupt)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted at the first signal that asks to stop."""
    _raise_at_first(_STOP, lambda name: Interrupted(f"stopped by {name}"))
    yield


def _raise_at_first(
    numbers: Iterable[signal.Signals], error: Callable[[str], BaseException]
) -> None:
    """Raise an error at the first signal, and ignore later ones so that the cleanup can finish.

    A terminal that closes may send two signals.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        for other in _STOP:
            signal.signal(other, signal.SIG_IGN)
        raise error(signal.Signals(number).name)

    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
            signal.signal(number, on_signal)
