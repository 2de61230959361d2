"""What this machine has for trials that run on it side by side."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import psutil

_DEVICES = Path("/proc/driver/nvidia/gpus")
_LIMIT = Path("/sys/fs/cgroup/memory.max")


def gpu_names(environment: Mapping[str, str], devices: Path = _DEVICES) -> tuple[str, ...]:
    """Return this machine's GPUs as CUDA_VISIBLE_DEVICES names them; () where none is known of."""
    given = environment.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return tuple(name.strip() for name in given.split(",") if name.strip())
    if not devices.is_dir():
        return ()
    return tuple(str(number) for number, _ in enumerate(devices.iterdir()))


def memory_mb() -> float:
    """Return the memory that this process may share out, MiB: the machine's, or its group's."""
    total = float(psutil.virtual_memory().total)
    with contextlib.suppress(OSError, ValueError):  # there is no limit, or none that is seen here
        total = min(total, float(_LIMIT.read_text()))
    return total / 2**20
