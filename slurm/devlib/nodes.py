"""The nodes: a slurmd each, with addresses, names, processes, cgroups, /tmp of their own."""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from devlib import cgroups, config, kernel, network, processes
from devlib.base import CONTROLLER, Failed, run, wait_until
from devlib.places import Cluster, Places
from devlib.relay import listens

_SYSTEM_PYTHON = Path("/usr/bin/python3")
_SERVES_S = 240.0
# States in which a node takes no jobs, as sinfo begins them.
_OUT = ("down", "drain", "drng", "fail", "unk", "unknown", "inval", "reboot", "boot", "planned")


def python() -> Path:
    """Return an interpreter that nodes see, too: a virtual environment may lie in /tmp."""
    return _SYSTEM_PYTHON if _SYSTEM_PYTHON.exists() else Path(sys.executable).resolve()


def make(places: Places, name: str, keep: Sequence[int] = ()) -> None:
    """Make a node (or the controller's side): namespaces, cgroups, disk, a cable. Raises Failed.

    keep: descriptors that stay open as long as it lives.
    """
    cgroups.make(places, name)
    own = places.node(name)
    for folder, mode in (("tmp", 0o1777), ("vartmp", 0o1777), ("spool", 0o755)):
        (own / folder).mkdir(parents=True, exist_ok=True)
        (own / folder).chmod(mode)
    first = processes.Task(
        name,
        [python(), "-IS", places.run / "first.py", name],
        inside=processes.SUPERVISOR,
        spaces=kernel.NEW_ALL,
        prepare=lambda: _furnish(places, name),
        connect=lambda pid: network.connect(places, name, pid),
        keep=keep,
    )
    processes.start(places, first).close()


def start(cluster: Cluster, node: str) -> float:
    """Start a node's slurmd, and the node, unless it runs; return when, 0 for long ago."""
    places = cluster.places
    if processes.pid_of(places, slurmd(node)):
        return 0.0
    now = time.time()
    processes.end(places, node)
    cgroups.remove(places, node)
    make(places, node)
    argv = ["/usr/sbin/slurmd", "-D", "-N", node]
    processes.start(places, processes.Task(slurmd(node), argv, node)).close()
    return now


def kill(places: Places, node: str) -> None:
    """SIGKILL all of a node at once: slurmd, its steps, whatever they started."""
    processes.end(places, node)


def slurmd(node: str) -> str:
    """Return the name of a node's slurmd among the processes."""
    return f"slurmd-{node}"


def runs(places: Places, node: str) -> bool:
    """Say whether a node and its slurmd run."""
    names = (node, slurmd(node))
    return all(processes.pid_of(places, name) is not None for name in names)


def wait_in_service(cluster: Cluster, nodes: list[str], since: float = 0.0) -> None:
    """Return when the nodes take jobs, their slurmd started at `since` or later. Raises Failed."""
    begun = time.monotonic()
    places = cluster.places

    def takes_jobs(node: str, state: str) -> bool:
        # Slurm's own word may be older than what happened to the node.
        return in_service(state) and _listens(places, node) and _registered(cluster, node, since)

    def ready() -> bool:
        seen = states(cluster)
        out = [node for node in nodes if not takes_jobs(node, seen.get(node, ""))]
        for node in out:
            if not runs(places, node):
                said = processes.last_words(places, slurmd(node))
                raise Failed(f"{node} ended: {said}")
        # Slurm takes back by itself what was down for not answering, and nothing else.
        if out and time.monotonic() - begun > 10:
            argv = ["scontrol", "update", f"nodename={','.join(out)}", "state=resume"]
            run(argv, places.environment, check=False, timeout=20)
        return not out

    if not wait_until(ready, _SERVES_S, 0.2):
        names = ", ".join(nodes)
        raise Failed(f"{names} do not come into service: see status, and {places.log}")


def states(cluster: Cluster) -> dict[str, str]:
    """Return each node's state in Slurm's words; empty where the controller does not answer."""
    argv = ["sinfo", "--noheader", "--Node", "--partition=batch", "--format=%N %T"]
    done = run(argv, cluster.places.environment, check=False, timeout=20)
    return dict(line.split(None, 1) for line in done.stdout.splitlines() if " " in line)


def in_service(state: str) -> bool:
    """Say whether a node in this state takes jobs. A `*` means that it does not answer."""
    return bool(state) and "*" not in state and not state.startswith(_OUT)


def _furnish(places: Places, name: str) -> None:
    """What the first process of a node does before its program."""
    socket.sethostname(name)
    kernel.mount("proc", "/proc")
    kernel.mount("tmpfs", "/dev/shm", "mode=1777")
    kernel.bind(places.inside / "hosts", "/etc/hosts")
    kernel.bind(places.inside, places.etc)
    if Path("/etc/slurm").is_dir():  # for what has lost SLURM_CONF
        kernel.bind(places.inside, "/etc/slurm")
    if name == CONTROLLER:  # the database is in memory: fast, and gone with the node
        kernel.mount("tmpfs", places.database, "mode=0700,size=1g")
        (places.database / "tmp").mkdir()
    else:
        kernel.bind(places.node(name) / "tmp", "/tmp")
        kernel.bind(places.node(name) / "vartmp", "/var/tmp")
    for hierarchy in cgroups.hierarchies():
        kernel.bind(cgroups.subtree(places, hierarchy, name), cgroups.ROOT / hierarchy)


def _listens(places: Places, node: str) -> bool:
    pid = processes.pid_of(places, node)
    return pid is not None and listens(pid, config.NODE_PORT)


def _registered(cluster: Cluster, node: str, since: float) -> bool:
    if not since:
        return True
    seconds = cluster.places.environment | {"SLURM_TIME_FORMAT": "%s"}
    done = run(["scontrol", "-o", "show", "node", node], seconds, check=False, timeout=20)
    found = re.search(r"SlurmdStartTime=(\d+)", done.stdout)
    return found is not None and int(found[1]) >= int(since)
