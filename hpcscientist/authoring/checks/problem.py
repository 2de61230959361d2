"""What a check finds."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from hpcscientist.records.base import Record

_ALIKE = 0.7  # from 0 to 1; below it, another name is no hint


class Problem(Record):
    """What is wrong, and where; `line` is None where Python does not say."""

    file: str
    line: int | None
    message: str

    def __str__(self) -> str:
        """Return `file:line: message`."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.message}"


def hint(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the known name nearest to one, "" if none is near."""
    near = difflib.get_close_matches(name, sorted(set(known) - {name}), n=1, cutoff=_ALIKE)
    return f"; did you mean {near[0]!r}?" if near else ""
