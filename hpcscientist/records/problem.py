"""What is wrong with a file, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; `line` counts from 1, None where a whole file is meant or nobody
    says.
    """

    file: str | Path
    line: int | None
    message: str

    def __str__(self) -> str:
        """Return `file:line: message`."""
        place = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        return f"{place}: {self.message}"
