"""This machine's GPUs: how many there are, and which ones this process may use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_DEVICES = Path("/dev")
_ORDER = "CUDA_DEVICE_ORDER"
# Device names of GPUs by other makers, or behind other drivers: these do not tell their number.
_OTHERS = ("kfd", "dxg", "dri")


def count(environ: Mapping[str, str], devices: Path = _DEVICES) -> int | None:
    """Return the number of GPUs that a trial here can use, None if unknown.

    CUDA_VISIBLE_DEVICES limits them if it is set.
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
    """Return the memory of each GPU that CUDA_VISIBLE_DEVICES names.

    `found` holds the UUID and memory of each GPU in bus order, see `order`. For a part of a GPU
    (MIG-…) this returns the smallest GPU's memory, because nothing more is known here. Like CUDA,
    it ignores all names from the first unknown or ambiguous one on.
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
    """Return the variable that makes CUDA number GPUs in bus order, like the NVIDIA driver.

    By default CUDA numbers the fastest first. All code that assigns GPUs by number has to use the
    same numbering.
    """
    return {_ORDER: environ.get(_ORDER, "PCI_BUS_ID")}


def _listed(visible: str) -> int:
    """Return the number of devices in a list; like CUDA, stop at an invalid name such as -1."""
    number = 0
    for name in (part.strip() for part in visible.split(",")):
        if not re.fullmatch(r"[0-9]+|(GPU|MIG)-.+", name):
            break
        number += 1
    return number
