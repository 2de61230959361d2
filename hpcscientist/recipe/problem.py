"""What is wrong with a recipe, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpcscientist.errors import RecipeError


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong; `line` counts from 1, None where a whole file is meant."""

    file: Path
    line: int | None
    message: str

    def __str__(self) -> str:
        """Return `file:line: message`."""
        place = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        return f"{place}: {self.message}"

    def as_error(self) -> RecipeError:
        """Return the problem as an exception."""
        return RecipeError(self.message, self.file, self.line)
