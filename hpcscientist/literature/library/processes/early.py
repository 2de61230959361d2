"""Readers of PDFs, which a build is sure to need, are begun before its own modules are imported.

So only what starts quickly is imported here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from hpcscientist.literature.library.files.paths import LibraryPaths
from hpcscientist.literature.library.processes.forks import Forks

_PDF: Final = "hpcscientist.literature.sources.pdf"
_LOOKED_AT: Final = 1000  # files of a folder


def forks_for(inputs: Sequence[Path], out: Path) -> Forks:
    """Return what a first build of `out` forks its readers of, started if there are PDFs.

    A folder is looked at, those below it are not. Whoever builds again may have nothing to read.
    """
    forks = Forks()
    if not LibraryPaths(out).contents.exists() and any(map(_has_pdfs, inputs)):
        forks.start([_PDF])
    return forks


def _has_pdfs(given: Path) -> bool:
    try:
        with os.scandir(given) as found:
            return any(_is_pdf(entry.name) for entry in islice(found, _LOOKED_AT))
    except OSError:  # no folder, or one that the build itself will complain of
        return _is_pdf(given.name)


def _is_pdf(name: str) -> bool:
    return name.lower().endswith(".pdf")
