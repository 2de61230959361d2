"""One bridge, a network namespace a node with an address of its own, names in /etc/hosts."""

from __future__ import annotations

import os
from pathlib import Path

from devlib.base import CONTROLLER, Cluster, Failed, run

BRIDGE = "hpcsci0"
SUBNET = "10.77.0"
CONTROLLER_ADDRESS = f"{SUBNET}.1"
_HOSTS = Path("/etc/hosts")
_MARK = "# hpcsci-devcluster"
_NAMESPACES = Path("/run/netns")


def address(index: int) -> str:
    """Return the address of the node with this number, from 1."""
    return f"{SUBNET}.{10 + index}"


def namespace(node: str) -> str:
    """Return the name of a node's network namespace."""
    return f"hpcsci-{node}"


def make(cluster: Cluster) -> None:
    """Make bridge, namespaces, links and names. Raises Failed."""
    if Path(f"/sys/class/net/{BRIDGE}").exists():
        raise Failed(f"the bridge {BRIDGE} exists already: take the cluster that made it down")
    _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("addr", "add", f"{CONTROLLER_ADDRESS}/24", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")
    for index, node in enumerate(cluster.names, 1):
        inside = namespace(node)
        _ip("netns", "add", inside)
        outside = f"hpcsci-v{index}"
        _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", inside)
        _ip("link", "set", outside, "master", BRIDGE, "up")
        _ip("-n", inside, "addr", "add", f"{address(index)}/24", "dev", "eth0")
        _ip("-n", inside, "link", "set", "lo", "up")
        _ip("-n", inside, "link", "set", "eth0", "up")
    names = [(CONTROLLER_ADDRESS, CONTROLLER)]
    names += [(address(index), node) for index, node in enumerate(cluster.names, 1)]
    lines = "".join(f"{address}\t{name}\t{_MARK}\n" for address, name in names)
    text = _HOSTS.read_text()
    _HOSTS.write_text(text + ("" if text.endswith("\n") or not text else "\n") + lines)
    for wanted, name in names:
        found = run(["getent", "ahostsv4", name], check=False).stdout.split()
        if wanted not in found[:1]:
            raise Failed(f"{name} means {found[:1]} here, not {wanted}: free the name in {_HOSTS}")


def remove(made_mount: bool) -> None:
    """Remove all that `make` made, whatever is left of it."""
    if any(_MARK in line for line in _HOSTS.read_text().splitlines()):
        kept = [line for line in _HOSTS.read_text().splitlines(True) if _MARK not in line]
        _HOSTS.write_text("".join(kept))  # in place: it may be a mount
    for inside in _made_namespaces():
        _ip("netns", "del", inside)
    for link in Path("/sys/class/net").glob("hpcsci-v*"):
        run(["ip", "link", "del", link.name], check=False)  # it may go with its namespace
    if Path(f"/sys/class/net/{BRIDGE}").exists():
        _ip("link", "del", BRIDGE)
    if made_mount and _NAMESPACES.exists() and not any(_NAMESPACES.iterdir()):
        run(["umount", _NAMESPACES], check=False)
        run(["rmdir", _NAMESPACES], check=False)


def has_mount() -> bool:
    """Say whether /run/netns is a mount, as `ip netns` makes it."""
    return os.path.ismount(_NAMESPACES)


def exists(node: str) -> bool:
    """Say whether a node's namespace is there."""
    return (_NAMESPACES / namespace(node)).exists()


def pids(node: str) -> list[int]:
    """Return the processes in a node's network namespace."""
    if not exists(node):
        return []
    return [int(word) for word in _ip("netns", "pids", namespace(node)).split()]


def all_pids() -> list[int]:
    """Return the processes of every node that was ever made."""
    return [int(p) for name in _made_namespaces() for p in _ip("netns", "pids", name).split()]


def set_link(node: str, state: str) -> None:
    """Set a node's link `up` or `down`."""
    _ip("-n", namespace(node), "link", "set", "eth0", state)


def link_is_up(node: str) -> bool:
    """Say whether a node's link is up."""
    if not exists(node):
        return False
    done = run(["ip", "-n", namespace(node), "-o", "link", "show", "eth0"], check=False)
    return ",UP" in done.stdout


def _made_namespaces() -> list[str]:
    return sorted(path.name for path in _NAMESPACES.glob("hpcsci-n*"))


def _ip(*words: str) -> str:
    return run(["ip", *words]).stdout
