"""A candidate that tries the walls of its sandbox and tells what it found.

It runs in whatever image a site has, so the standard library of an old Python is all it uses.
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
# Where Apptainer and our own command mount things; anything else is the host's.
OWN = r"/|/(proc|sys|dev|code|data|out|work|tmp|var/tmp|dev/shm|\.singularity\.d|etc)(/.*)?"


def is_same(place: dict[str, Any]) -> bool:
    """Tell whether the host's file or folder is the one seen here under its path."""
    try:
        info = Path(place["path"]).stat()
    except OSError:
        return False
    return bool([info.st_dev, info.st_ino] == place["identity"])


def is_reached(address: list[Any]) -> bool:
    """Tell whether somebody answers at an address."""
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
    """Return where something of the host's is mounted beside what a trial is given."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    targets = {line.split(" ")[1] for line in lines}
    return sorted(target for target in targets if not re.fullmatch(OWN, target))


def sees_process(mark: str) -> bool:
    """Tell whether a process with a mark in its command line can be seen."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


def limits() -> dict[str, int]:
    """Return hard limits; -1 for none."""
    kinds = {
        "processes": resource.RLIMIT_NPROC,
        "open files": resource.RLIMIT_NOFILE,
        "file size": resource.RLIMIT_FSIZE,
    }
    return {name: resource.getrlimit(kind)[1] for name, kind in kinds.items()}


def main() -> None:
    """Try every wall that the public data name, and write what was found."""
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
