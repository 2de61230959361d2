"""What this machine has for trials that run on it side by side."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import psutil

from hpcscientist.errors import UsageError

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


# Paths that Slurm and submitit do not take as they are.


def refuse_patterns(root: Path) -> None:
    """Raise UsageError for a folder below which nothing can be submitted.

    submitit puts the job's number in place of %j and the like wherever they stand in a path, and
    Slurm does so with more of them, so files would come to lie in folders beside.
    """
    if "%" in str(root.absolute()):
        raise UsageError(
            f"{root.absolute()}: Slurm and submitit read the % in this path as the start of a "
            "pattern; give a folder without one (--run-dir, or --out of a rerun)"
        )
