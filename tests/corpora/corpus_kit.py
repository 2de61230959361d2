"""What a corpus is: inputs as real servers, models, sites and programs write them, with answers.

A corpus is a module `NAME_corpus.py` in this folder with a function `cases()`. Its data may lie in
a folder `NAME/` beside it. `test_corpora.py` runs every case in the gate; `run.py` prints a line
for each case.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Case:
    """One input: `read` returns what our code makes of it, `expected` is what it has to be."""

    name: str
    expected: object
    read: Callable[[], object]
    source: str = ""  # what writes inputs of this kind: a program and its version, say


def names() -> list[str]:
    """The corpora that there are, by their modules."""
    return sorted(path.name.removesuffix("_corpus.py") for path in FOLDER.glob("*_corpus.py"))


def cases(name: str) -> Iterable[Case]:
    """The cases of the corpus `name`."""
    found: Iterable[Case] = importlib.import_module(f"{name}_corpus").cases()
    return found
