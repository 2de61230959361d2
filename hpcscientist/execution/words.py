"""One line out of a log: for people and for the next prompt."""

from __future__ import annotations

import re

_LONGEST = 300
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_TRACEBACK = "Traceback (most recent call last)"


def headline(text: str) -> str:
    """Return the exception's line of the last traceback, else the last line that says anything.

    Control characters are removed and long lines cut.
    """
    lines = [line for line in _CONTROL.sub("", text).splitlines() if line.strip()]
    if not lines:
        return ""
    return _exception(lines) or lines[-1].strip()[:_LONGEST]


def _exception(lines: list[str]) -> str | None:
    starts = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    if not starts:
        return None
    after = lines[starts[-1] + 1 :]
    found = next((line for line in after if not line.startswith((" ", "\t"))), None)
    return found.strip()[:_LONGEST] if found else None
