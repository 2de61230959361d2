"""A candidate that tests the walls of its sandbox and writes what it found.

It runs in any image that a site has, so it uses only the standard library of an old Python.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import socket
import sys
from pathlib import Path
from typing import Any

REACH_S = 2.0
# Mount points of Apptainer and of our own command; any other mount comes from the host.
OWN = r"/|/(proc|sys|dev|code|data|out|work|tmp|var/tmp|dev/shm|\.singularity\.d|etc)(/.*)?"


def is_same(place: dict[str, Any]) -> bool:
    """Return whether a path leads to the host's file or folder here, too."""
    try:
        info = Path(place["path"]).stat()
    except OSError:
        return False
    return bool([info.st_dev, info.st_ino] == place["identity"])


def is_reached(address: list[Any]) -> bool:
    """Return whether a connection to an address succeeds."""
    try:
        socket.create_connection((address[0], address[1]), REACH_S).close()
    except OSError:
        return False
    return True


def interfaces() -> list[str]:
    """Return the network interfaces of this network namespace."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return sorted(line.split(":")[0].strip() for line in lines if ":" in line)


def foreign_mounts() -> list[str]:
    """Return the mount points that a trial is not given: mounts of the host."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    targets = {line.split(" ")[1] for line in lines}
    return sorted(target for target in targets if not re.fullmatch(OWN, target))


def sees_process(mark: str) -> bool:
    """Return whether a process with a mark in its command line is visible."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


def limits() -> dict[str, int]:
    """Return the hard limits of this process; -1 for none."""
    kinds = {
        "processes": resource.RLIMIT_NPROC,
        "open files": resource.RLIMIT_NOFILE,
        "file size": resource.RLIMIT_FSIZE,
    }
    return {name: resource.getrlimit(kind)[1] for name, kind in kinds.items()}


def main() -> None:
    """Test every wall that the public data name, and write the findings as predictions."""
    parser = argparse.ArgumentParser()
    for name in ("data", "out", "seed", "budget", "split"):
        parser.add_argument(f"--{name}")
    given = parser.parse_args()
    walls = json.loads(Path(given.data, "walls.json").read_text())
    found = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "interfaces": interfaces(),
        "reached": [address for address in walls["addresses"] if is_reached(address)],
        "seen": [place["name"] for place in walls["places"] if is_same(place)],
        "mounts": foreign_mounts(),
        "environment": walls["variable"] in os.environ,
        "processes": sees_process(walls["process"]),
        "is_root": os.getuid() == 0,
        "limits": limits(),
    }
    Path(given.out, "predictions.csv").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
