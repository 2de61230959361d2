"""How many GPUs this machine has, as far as its devices tell without any program of theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_DEVICES = Path("/dev")
# Other makers' GPUs, or ones behind another name: they are there, and nobody knows how many.
_OTHERS = ("kfd", "dxg", "dri")


def count(environ: Mapping[str, str], devices: Path = _DEVICES) -> int | None:
    """Return the number of GPUs that a trial here can use; None where that is not known.

    CUDA_VISIBLE_DEVICES says which of them are ours.
    """
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return _listed(visible)
    try:
        names = {entry.name for entry in devices.iterdir()}
    except OSError:
        return None
    own = sum(re.fullmatch(r"nvidia[0-9]+", name) is not None for name in names)
    return None if not own and names.intersection(_OTHERS) else own


def _listed(visible: str) -> int:
    """Count the devices of a list; CUDA ends it where it names none, as -1 does."""
    number = 0
    for name in (part.strip() for part in visible.split(",")):
        if not re.fullmatch(r"[0-9]+|(GPU|MIG)-.+", name):
            break
        number += 1
    return number
