"""The network: a bridge in the supervisor's namespace, and a cable from it to every node.

No device has a name in the machine's own tables, so none can be left there.
"""

from __future__ import annotations

from devlib.base import CONTROLLER, Failed, run, wait_until
from devlib.places import Cluster, Places
from devlib.processes import SUPERVISOR, pid_of

SUBNET = "10.77.0"
CONTROLLER_ADDRESS = f"{SUBNET}.1"


def address(name: str) -> str:
    """Return the address of a node, or of the controller."""
    return CONTROLLER_ADDRESS if name == CONTROLLER else f"{SUBNET}.{10 + int(name[1:])}"


def hosts(cluster: Cluster) -> str:
    """Return the nodes' /etc/hosts."""
    rows = [("127.0.0.1", "localhost"), ("::1", "localhost ip6-localhost")]
    rows += [(address(name), name) for name in (CONTROLLER, *cluster.names)]
    return "".join(f"{where}\t{name}\n" for where, name in rows)


def make_bridge(places: Places) -> None:
    """Make the bridge. Raises Failed."""
    _batch(places, SUPERVISOR, "link add br0 type bridge forward_delay 0", "link set br0 up")


def connect(places: Places, name: str, pid: int) -> None:
    """Lay a cable from the bridge to a node's first process. Raises Failed."""

    def laid() -> bool:
        # The far end of a killed node's cable goes a little later than the node.
        _try(places, f"link del {_plug(name)}")
        return _try(places, f"link add {_plug(name)} type veth peer name eth0 netns {pid}")

    if not wait_until(laid, 30):
        raise Failed(f"no cable can be laid to {name}: is /proc/{pid} there?")
    _batch(places, SUPERVISOR, f"link set {_plug(name)} master br0", f"link set {_plug(name)} up")
    inside = ("link set lo up", f"addr add {address(name)}/24 dev eth0", "link set eth0 up")
    _ip_batch(pid, *inside)


def set_link(places: Places, node: str, state: str) -> None:
    """Set a node's link `up` or `down`. Raises Failed."""
    if pid_of(places, node) is None:
        raise Failed(f"{node} does not run: slurm/devcluster start {node}")
    _batch(places, SUPERVISOR, f"link set {_plug(node)} {state}")


def link_is_up(places: Places, node: str) -> bool:
    """Say whether a node's link is up."""
    supervisor = pid_of(places, SUPERVISOR)
    if supervisor is None:
        return False
    argv = [*_ip(supervisor), "-oneline", "link", "show", _plug(node)]
    return ",UP" in run(argv, check=False, timeout=60).stdout


def _plug(name: str) -> str:
    return f"p-{name}"


def _batch(places: Places, name: str, *commands: str) -> None:
    pid = pid_of(places, name)
    if pid is None:
        raise Failed(f"{name} does not run: slurm/devcluster down")
    _ip_batch(pid, *commands)


def _try(places: Places, command: str) -> bool:
    pid = pid_of(places, SUPERVISOR)
    if pid is None:
        return False
    return run([*_ip(pid), *command.split()], check=False, timeout=60).returncode == 0


def _ip_batch(pid: int, *commands: str) -> None:
    run([*_ip(pid), "-batch", "-"], timeout=60, stdin="\n".join(commands) + "\n")


def _ip(pid: int) -> list[str]:
    return ["nsenter", f"--target={pid}", "--net", "ip"]
