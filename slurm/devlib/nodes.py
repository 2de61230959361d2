"""The nodes: a slurmd each, in network, host name, mount and process namespaces of its own."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

from devlib import config, network, processes
from devlib.base import Cluster, Failed, run, wait_until

# The first process of a node. It reaps what jobs leave, which slurmd does not, and when it
# ends, the kernel ends all others of its namespace.
_FIRST = """
set -e
hostname "$1"
mount --bind "$2/tmp" /tmp
mount --bind "$2/vartmp" /var/tmp
mount -t tmpfs -o mode=1777,size=512m tmpfs /dev/shm
if [ -d /etc/slurm ]; then mount --bind "$3" /etc/slurm; fi
slurmd -D -N "$1" &
wait "$!"
"""

# States in which a node takes no jobs, as sinfo begins them.
_OUT = ("down", "drain", "drng", "fail", "unk", "unknown", "inval", "reboot", "boot", "planned")


def check(cluster: Cluster, node: str) -> None:
    """Raise Failed for a name that is no node's."""
    if node not in cluster.names:
        raise Failed(f"no node {node!r}: there are {', '.join(cluster.names)}")


def start(cluster: Cluster, node: str) -> float:
    """Start a node's slurmd, unless it runs; return when, 0 for long ago."""
    if network.pids(node):
        return 0.0
    now = time.time()
    own = cluster.places.node(node)
    for name, mode in (("tmp", 0o1777), ("vartmp", 0o1777), ("spool", 0o755)):
        (own / name).mkdir(parents=True, exist_ok=True)
        (own / name).chmod(mode)
    argv: list[str | Path] = [
        *("nsenter", f"--net=/run/netns/{network.namespace(node)}"),
        *("unshare", "--uts", "--mount", "--pid", "--fork", "--mount-proc"),
        *("sh", "-c", _FIRST, "node", node, own, cluster.places.etc),
    ]
    processes.start(cluster.places, node, argv)
    return now


def kill(node: str) -> None:
    """SIGKILL all of a node at once: slurmd, its steps, whatever they started."""
    processes.end(network.pids(node))


def wait_in_service(cluster: Cluster, nodes: list[str], since: float = 0.0) -> None:
    """Return when the nodes take jobs, their slurmd started at `since` or later. Raises Failed."""
    begun = time.monotonic()

    def takes_jobs(node: str, state: str) -> bool:
        # Slurm's own word may be older than what happened to the node.
        return in_service(state) and _listens(cluster, node) and _registered(cluster, node, since)

    def ready() -> bool:
        seen = states(cluster)
        out = [node for node in nodes if not takes_jobs(node, seen.get(node, ""))]
        for node in out:
            # Not at once: it enters its namespace a moment after it was started.
            if time.monotonic() - begun > 5 and not network.pids(node):
                said = processes.last_words(cluster.places, node)
                raise Failed(f"{node} ended: {said}")
        # Slurm takes back by itself what was down for not answering, and nothing else.
        if out and time.monotonic() - begun > 10:
            argv = ["scontrol", "update", f"nodename={','.join(out)}", "state=resume"]
            run(argv, cluster.places, check=False, timeout=20)
        return not out

    if not wait_until(ready, 90, 0.3):
        names = ", ".join(nodes)
        raise Failed(f"{names} do not come into service: see status, and {cluster.places.log}")


def states(cluster: Cluster) -> dict[str, str]:
    """Return each node's state in Slurm's words; empty where the controller does not answer."""
    argv = ["sinfo", "--noheader", "--Node", "--partition=batch", "--format=%N %T"]
    done = run(argv, cluster.places, check=False, timeout=20)
    return dict(line.split(None, 1) for line in done.stdout.splitlines() if " " in line)


def in_service(state: str) -> bool:
    """Say whether a node in this state takes jobs. A `*` means that it does not answer."""
    return bool(state) and "*" not in state and not state.startswith(_OUT)


def _listens(cluster: Cluster, node: str) -> bool:
    address = network.address(cluster.names.index(node) + 1)
    try:
        with socket.create_connection((address, config.NODE_PORT), timeout=2):
            return True
    except OSError:
        return False


def _registered(cluster: Cluster, node: str, since: float) -> bool:
    if not since:
        return True
    argv = ["scontrol", "-o", "show", "node", node]
    done = run(argv, cluster.places, check=False, timeout=20, variables={"SLURM_TIME_FORMAT": "%s"})
    found = re.search(r"SlurmdStartTime=(\d+)", done.stdout)
    return found is not None and int(found[1]) >= int(since)
