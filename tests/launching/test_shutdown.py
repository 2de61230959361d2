"""What halts a driver, and what does not any more."""

from __future__ import annotations

import os
import signal

import pytest

from hpcscientist.launching.shutdown import STOP_SIGNALS, unheard


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_does_not_kill_what_is_ending(number: signal.Signals) -> None:
    before = {each: signal.getsignal(each) for each in STOP_SIGNALS}
    with unheard():
        os.kill(os.getpid(), number)
    assert {each: signal.getsignal(each) for each in STOP_SIGNALS} == before
