"""Closed-loop automated research on Slurm clusters. Importing this package imports nothing else.

`Campaign`, `launch` and `load_campaign` are defined in `hpcscientist.api`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_API = ("Campaign", "launch", "load_campaign")


def __getattr__(name: str) -> Any:
    if name in _API:
        return getattr(import_module("hpcscientist.api"), name)  # imports everything, so only now
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
