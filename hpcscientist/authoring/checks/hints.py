"""What a name that nobody knows may have been meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ALIKE = 0.7  # from 0 to 1; below it, another name is no hint


def hint(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the known name nearest to one, "" if none is near."""
    near = difflib.get_close_matches(name, sorted(set(known) - {name}), n=1, cutoff=_ALIKE)
    return f"; did you mean {near[0]!r}?" if near else ""
