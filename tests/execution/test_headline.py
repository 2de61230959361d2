from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.execution.trial_outcome import error_headline

TRACEBACK = """start
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    f()
ValueError: first

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    g()
numpy.linalg.LinAlgError: singular
  with a second line
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        (" \n\n", ""),
        ("a\nb\n", "b"),
        ("\x1b[31mred\x1b[0m\n", "red"),
        (TRACEBACK, "numpy.linalg.LinAlgError: singular"),
        (TRACEBACK + "bye\n", "numpy.linalg.LinAlgError: singular"),
        ("Traceback (most recent call last):\n  cut off", "cut off"),
    ],
)
def test_headline(text: str, line: str) -> None:
    assert error_headline(text) == line


@given(st.text())
def test_it_is_always_one_bounded_line(text: str) -> None:
    line = error_headline(text)
    assert len(line.splitlines()) <= 1
    assert len(line) <= 300
