"""Reads a venue: the sections of a paper in their order, its page limit and its LaTeX layout.

A venue is a folder with `venue.toml`, `paper.tex`, and the class and style files that paper.tex
needs. The venues of this package are beside this file; `--venue FOLDER` names a user's own.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError, field_validator

from hpcscientist.errors import UsageError
from hpcscientist.files.handed import read_regular
from hpcscientist.records.base import Record, place_of

_HOME: Final = Path(__file__).resolve().parent / "venues"
_DESCRIPTION, _TEMPLATE = "venue.toml", "paper.tex"
_LARGEST: Final = 4 * 2**20  # bytes of a class or style file
# The macros that every paper.tex must use; see `papers/typesetting/hpcpaper.sty`.
MACROS: Final = (
    r"\hpcTitle",
    r"\hpcAuthors",
    r"\hpcAbstract",
    r"\hpcBody",
    r"\hpcReferences",
    r"\hpcAppendix",
)
DEFAULT: Final = "article"


class VenueSection(Record):
    """A section that papers of a venue have. `advice` goes to the writer of the section."""

    id: str = Field(pattern=r"^[a-z][a-z-]*$")
    title: str = Field(min_length=1, max_length=80)
    advice: str = ""

    @field_validator("title")
    @classmethod
    def _without_digits(cls, title: str) -> str:
        # A heading is printed without a trace, so it must not be a place for numbers.
        if any(c.isnumeric() for c in title):
            raise ValueError("has a digit")
        return title


class _Description(Record):
    title: str = Field(min_length=1)
    pages: int = Field(ge=0, le=500)
    columns: int = Field(default=1, ge=1, le=2)
    width_in: float = Field(gt=1, lt=12)
    sections: tuple[VenueSection, ...] = Field(min_length=1)

    @field_validator("sections")
    @classmethod
    def _distinct(cls, sections: tuple[VenueSection, ...]) -> tuple[VenueSection, ...]:
        if len({section.id for section in sections}) < len(sections):
            raise ValueError("two sections have the same id")
        return sections


@dataclass(frozen=True, slots=True)
class Venue:
    """A venue as read from its folder.

    `pages` limits the main text, up to the references; 0 means no limit. `width_in` is the width of
    a column in inches, and of figures. `files` are the other files of the folder by name.
    """

    name: str
    title: str
    pages: int
    columns: int
    width_in: float
    sections: tuple[VenueSection, ...]
    template: str
    files: dict[str, bytes]


def names() -> list[str]:
    """Return the names of the venues that come with this package."""
    return sorted(path.parent.name for path in _HOME.glob(f"*/{_DESCRIPTION}"))


def load(wanted: str, folder: Path) -> Venue:
    """Return a venue by its name, or by its folder (relative to `folder`).

    Raises UsageError, which says what is wrong with the venue.
    """
    own = _HOME / wanted
    if wanted in names():
        return _read(own)
    place = folder / wanted
    if not (place / _DESCRIPTION).is_file():
        raise UsageError(
            f"--venue {wanted}: no venue and no folder with {_DESCRIPTION}; "
            f"there are {', '.join(names())}"
        )
    return _read(place)


def _read(folder: Path) -> Venue:
    try:
        text = read_regular(folder / _DESCRIPTION).decode()
        found = _Description.model_validate(tomllib.loads(text), strict=False)
        template = read_regular(folder / _TEMPLATE).decode()
        files = {
            path.name: read_regular(path)
            for path in sorted(folder.iterdir())
            if path.name not in (_DESCRIPTION, _TEMPLATE) and _is_material(path)
        }
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = place_of(first["loc"])
        raise UsageError(f"{folder / _DESCRIPTION}: {place}: {first['msg']}; fix that") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder}: cannot be read as a venue: {error}") from error
    lacking = [
        macro for macro in MACROS if not re.search(re.escape(macro) + r"(?![a-zA-Z])", template)
    ]
    if lacking:
        raise UsageError(f"{folder / _TEMPLATE}: lacks {', '.join(lacking)}; add them")
    return Venue(
        name=folder.name,
        title=found.title,
        pages=found.pages,
        columns=found.columns,
        width_in=found.width_in,
        sections=found.sections,
        template=template,
        files=files,
    )


def _is_material(path: Path) -> bool:
    """Return whether a file is part of a layout: no link, not hidden and not too large."""
    return (
        path.is_file()
        and not path.is_symlink()
        and not path.name.startswith(".")
        and path.stat().st_size <= _LARGEST
    )
