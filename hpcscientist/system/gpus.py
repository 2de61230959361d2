"""This machine's GPUs: how many, as far as its devices tell, and which of them are ours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_DEVICES = Path("/dev")
_ORDER = "CUDA_DEVICE_ORDER"
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


def seen(found: Sequence[tuple[str, int]], visible: str) -> list[int]:
    """Return the memory of the GPUs that CUDA_VISIBLE_DEVICES names, by UUID and memory of each.

    `found` is in the order of the bus, see `order`. A part of a GPU (MIG-…) has, for all that is
    known here, the memory of the least. As CUDA does, no name is believed after one that is none
    or could be two.
    """
    memories: list[int] = []
    for name in (part.strip() for part in visible.split(",")):
        named = [mb for uuid, mb in found if name.startswith("GPU-") and uuid.startswith(name)]
        if name.startswith("MIG-") and found:
            memories.append(min(mb for _, mb in found))
        elif name.isdigit() and int(name) < len(found):
            memories.append(found[int(name)][1])
        elif len(named) == 1:
            memories.append(named[0])
        else:
            break
    return memories


def order(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable by which CUDA numbers GPUs as the bus, and so the driver, does.

    By itself it begins with the fastest. Whoever divides GPUs by their numbers has to be of one
    mind about these.
    """
    return {_ORDER: environ.get(_ORDER, "PCI_BUS_ID")}


def _listed(visible: str) -> int:
    """Count the devices of a list; CUDA ends it where it names none, as -1 does."""
    number = 0
    for name in (part.strip() for part in visible.split(",")):
        if not re.fullmatch(r"[0-9]+|(GPU|MIG)-.+", name):
            break
        number += 1
    return number
