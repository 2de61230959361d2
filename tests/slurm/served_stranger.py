"""Another user of the same machines, who knows none of a plane's secrets."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from served_kit import LIMIT_S, Listener, Served, below

STRANGER = "nobody"
# What may be had without the key: that something lives, which its open port shows anyway.
HEALTH = r"200 (success|raylet: success|gcs: success( \(no local gcs\))?|\s)+"
ALIVE = dict.fromkeys(("/api/healthz", "/api/local_raylet_healthz"), HEALTH)
TRY_TO_READ = """\
import json, sys
def can(path):
    try:
        open(path).close()
    except OSError:
        return False
    return True
print(json.dumps([path for path in json.load(sys.stdin) if can(path)]))
"""


def knock(served: Served, node: str, host: str, ports: list[int]) -> subprocess.Popen[str]:
    """Begin to try ports of a host from a node."""
    script = served.folder / "served_probe.py"
    command = served.as_other(
        node, STRANGER, "GRPC_VERBOSITY=NONE", served.engine, "-P", script, host, *map(str, ports)
    )
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outcome(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return what each of the ports gave; see `served_probe`."""
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def check_refused(one: Listener, host: str, given: dict[str, Any]) -> None:
    """See that what a port gave is nothing that the plane has."""
    said = given["said"]
    if said == "http":
        for path, status in given["http"].items():
            assert re.fullmatch(f"401|403|{ALIVE.get(path, '401')}", status), (one, path, status)
    elif said == "grpc":
        assert given["services"], one
        assert set(given["others"]) <= {"/grpc.health.v1.Health/Check"}, (one, given["others"])
    elif said in ("silent", "closed"):
        # The engine's own sockets, which no other node reaches; and srun's, which want munge.
        assert host == "127.0.0.1" or one.name.startswith("srun"), (one, host, said)
    else:
        assert said == "refused", (one, said)


def readable(served: Served, node: str, paths: Iterable[Path]) -> list[str]:
    """Return which of a node's files a stranger can open."""
    done = subprocess.run(
        served.as_other(node, STRANGER, "python3", "-c", TRY_TO_READ),
        input=json.dumps([str(path) for path in paths]),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str] = json.loads(done.stdout)
    return found


def files_of(served: Served, node: str, place: Path) -> list[Path]:
    """The files at or below a place of a node, by their paths there."""
    root = served.inside(node, Path("/"))
    return [Path("/") / path.relative_to(root) for path in below(served.inside(node, place))]
