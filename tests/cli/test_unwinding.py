"""Signals that ask a command to stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from hpcscientist.cli.shared.options import _STOP, unwind_on

NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _STOP}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_unwinds(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)
    unwind_on(*NUMBERS)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    for other in _STOP:  # what was begun is cleared away whole
        signal.raise_signal(other)


def test_nohup_stays_nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    unwind_on(*NUMBERS)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    signal.raise_signal(signal.SIGHUP)
