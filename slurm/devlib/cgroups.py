"""Cgroups of version 1: every node sees a subtree of its own as the whole hierarchy."""

from __future__ import annotations

import os
from pathlib import Path

from devlib.base import Failed, wait_until
from devlib.places import Places

ROOT = Path("/sys/fs/cgroup")
_WANTED = ("memory", "freezer", "cpuset", "cpuacct", "devices")
_NEEDED = {"memory", "freezer"}


def hierarchies() -> list[str]:
    """Return the hierarchies of version 1 that nodes get; none unless Slurm can use them."""
    there = [name for name in _WANTED if (ROOT / name / "cgroup.procs").exists()]
    return there if set(there) >= _NEEDED else []


def limits_swap() -> bool:
    """Say whether the kernel counts swap with memory."""
    return (ROOT / "memory" / "memory.memsw.limit_in_bytes").exists()


def subtree(places: Places, hierarchy: str, node: str) -> Path:
    """Return a node's part of a hierarchy."""
    return ROOT / hierarchy / places.cgroup / node


def make(places: Places, node: str) -> None:
    """Make a node's cgroups. Raises OSError."""
    for hierarchy in hierarchies():
        below = subtree(places, hierarchy, node)
        for path in (below.parent, below):
            path.mkdir(exist_ok=True)
            if hierarchy == "cpuset":  # a new one is empty and would take no process
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (path / name).write_text((path.parent / name).read_text())


def join(places: Places, node: str) -> None:
    """Put this process into a node's cgroups, where that has some. Raises OSError."""
    for hierarchy in hierarchies():
        path = subtree(places, hierarchy, node)
        if path.exists():
            (path / "cgroup.procs").write_text("0")


def remove(places: Places, node: str = "") -> None:
    """Remove a node's cgroups, or without a name the whole cluster's. Raises Failed."""
    if not wait_until(lambda: _try_to_remove(places, node)):
        raise Failed(f"processes are left in {ROOT}/*/{places.cgroup}: end them, then down")


def _try_to_remove(places: Places, node: str) -> bool:
    clear = True
    for hierarchy in _WANTED:
        for path, *_ in os.walk(subtree(places, hierarchy, node), topdown=False):
            try:
                Path(path).rmdir()
            except FileNotFoundError:
                pass
            except OSError:  # its last processes are still leaving
                clear = False
    return clear
