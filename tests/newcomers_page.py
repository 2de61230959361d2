"""Parses what the newcomer's page says about the code and a campaign, for tests of these claims."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "hpcscientist" / "README.md"
_NAME = re.compile(r"`((?:[a-z_]+/)+[a-z_]+)\.(?!py`)([A-Za-z_]+(?:\.[a-z_]+)*)`")
_FILE = re.compile(r"`(ideas/[^`]+)`")
_LINES = re.compile(r"^ *```json\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    """Return a section of the page, without its heading."""
    return PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n", 1)[1].split("\n## ")[0]


def names(text: str) -> list[tuple[str, str]]:
    """Return the functions and classes that a text names, as file and name in it."""
    return [(found[1], found[2]) for found in _NAME.finditer(text)]


def files(text: str) -> list[str]:
    """Return the files of a run directory that a text names."""
    return [found[1] for found in _FILE.finditer(text)]


def excerpts(text: str) -> list[dict[str, Any]]:
    """Return the journal events that a text quotes, in order."""
    return [json.loads(line) for block in _LINES.findall(text) for line in block.splitlines()]


def is_part(part: Any, whole: Any) -> bool:
    """Return whether a quoted value matches the journal's; a mapping may have fewer fields."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and is_part(value, whole[key]) for key, value in part.items())
    return bool(part == whole)
