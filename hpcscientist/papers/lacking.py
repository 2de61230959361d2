"""Reports what this machine lacks to make papers, before a run starts."""

from __future__ import annotations

import importlib.util
from typing import Final

from hpcscientist.papers.typesetting import engine

EXTRA: Final = "pip install 'hpcscientist[papers]'"
_PACKAGES: Final = {
    "pymupdf": "PyMuPDF, so no PDF can be checked",
    "matplotlib": "matplotlib, so no figure can be drawn",
}


def missing() -> tuple[str, ...]:
    """Return what is missing here to make a PDF, each item with its fix."""
    found = []
    if packages := engine.lacking():
        found.append(f"TeX packages: {' '.join(packages)} ({engine.INSTALL})")
    found += [
        f"{what} ({EXTRA})"
        for name, what in _PACKAGES.items()
        if importlib.util.find_spec(name) is None
    ]
    return tuple(found)


def can_preview() -> bool:
    """Return whether Typst is installed."""
    return importlib.util.find_spec("typst") is not None


def statement() -> str:
    """Return what is missing in one line, or ""."""
    found = missing()
    return f"no PDF can be made here: lacking are {'; '.join(found)}" if found else ""
