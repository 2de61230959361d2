"""Count the kernel's out-of-memory kills, in this process's control group and on the whole node.

Slurm limits a job's memory by control groups. If a job exceeds its limit, the kernel kills one
process, usually the largest: a candidate. Its worker survives and sees only signal 9.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

# Beside the counts of kills: version 1 and version 2 of control groups.
_FILES = {"memory": "memory.oom_control", "": "memory.events"}


def memory_kills(proc: Path = Path("/proc/self")) -> int:
    """Return the number of kills in this process's control group so far; 0 if not counted."""
    with contextlib.suppress(OSError, ValueError):
        groups, mounts = (proc / "cgroup").read_text(), (proc / "mountinfo").read_text()
        for line in groups.splitlines():
            _, controllers, group = line.split(":", 2)
            name = "memory" if "memory" in controllers.split(",") else controllers
            if name in _FILES and (folder := _folder(mounts, name, group)) is not None:
                with contextlib.suppress(OSError):
                    found = re.search(r"(?m)^oom_kill (\d+)$", (folder / _FILES[name]).read_text())
                    if found:
                        return int(found[1])
    return 0


def memory_kills_of_node(vmstat: Path = Path("/proc/vmstat")) -> int | None:
    """Return the number of kills of any process on this node so far; None if not counted.

    The kernel does not count kills by daemons that free memory (earlyoom, systemd-oomd).
    """
    with contextlib.suppress(OSError):
        found = re.search(r"(?m)^oom_kill (\d+)$", vmstat.read_text())
        return int(found[1]) if found else None
    return None


def _folder(mounts: str, controller: str, group: str) -> Path | None:
    """Return a control group's folder, or None; a container or node may see only some groups."""
    for line in reversed(mounts.splitlines()):  # a later mount hides an earlier one
        mount, _, source = line.partition(" - ")
        kind, _, options = source.split(" ", 2)
        root, place = mount.split(" ")[3:5]
        wanted = "cgroup" if controller else "cgroup2"
        if kind == wanted and (not controller or controller in options.split(",")):
            below = group.removeprefix(root.rstrip("/"))
            if group == root or below.startswith("/"):
                return Path(place) / below.lstrip("/") if group != root else Path(place)
    return None
