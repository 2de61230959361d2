"""The main process on each node of a plane: runs Ray, and on the head the application too.

    python -m hpcscientist.models.serving.nodes.node ORDER head|worker

It ends with all its processes, its temporary folder and its shared memory in these cases: it gets a
signal; the plane's `stop` file appears (srun turns every signal into a SIGKILL of its step); its
parent dies; the plane's driver shows no more signs of life (`lease`); or its Ray ends. It never
calls `ray stop`, which would end every Ray of this user on the node. Exit status PORTS_TAKEN asks
for another block of ports.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from hpcscientist.models.serving.lease import Lease
from hpcscientist.models.serving.nodes import leftovers, offline
from hpcscientist.models.serving.nodes.caches import FOLDER
from hpcscientist.models.serving.order import Order, ServingPaths, hold_port, ports_taken
from hpcscientist.system import gpus, processes

MODULE = __name__ if __name__ != "__main__" else "hpcscientist.models.serving.nodes.node"
APPLICATION = "hpcscientist.models.serving.nodes.application"
DOOR = "hpcscientist.models.serving.nodes.door"
PORTS_TAKEN = 75  # sysexits.h: try again
LOOPBACK = "127.0.0.1"

_POLL_S = 0.5
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class EndSignal(Exception):
    """A signal asks this node to end."""


def main(arguments: Sequence[str]) -> int:
    """Serve one node of a plane until asked to end; return the exit status."""
    order_file, role = arguments
    order = Order.model_validate_json(Path(order_file).read_bytes())
    processes.prctl(processes.PR_SET_PDEATHSIG, signal.SIGTERM)
    for number in _SIGNALS:
        signal.signal(number, _tell)
    brood = processes.ProcessTree()
    own = order.head if role == "head" else own_address(order.head)
    memory = leftovers.SharedMemory(brood.pids)
    folder: Path | None = None
    try:
        held = hold_port(order.ports.claim)
        busy = ports_taken(_needed(order, role), {own, LOOPBACK})
        if held is None or busy:
            print(f"ports taken on {socket.gethostname()}: {busy or 'the block'}", flush=True)
            return PORTS_TAKEN
        folder = leftovers.temporary_folder(order)
        memory.keep_list(folder)
        return _serve(order, role, own, folder, memory)
    except EndSignal:
        return 0
    finally:
        _ignore()
        memory.look()
        brood.end()
        memory.remove()  # first: whatever ends a job does not wait for long
        if folder is not None:
            leftovers.keep_logs(order, folder)
            shutil.rmtree(folder, ignore_errors=True)
        if role == "head":
            leftovers.withdraw(order)
        leftovers.remove_orphans()


def ray_command(order: Order, role: str, own: str, folder: Path) -> list[str]:
    """Return the command that runs Ray on this node in the foreground.

    All resources are given. By itself Ray would use the whole node's (all cores, all GPUs, a third
    of the memory), not only ours.
    """
    given = order.ports
    options = {
        "node-ip-address": own,
        "node-manager-port": given.node_manager,
        "object-manager-port": given.object_manager,
        "dashboard-agent-listen-port": given.agent_http,
        "dashboard-agent-grpc-port": given.agent_grpc,
        "runtime-env-agent-port": given.runtime_env,
        "metrics-export-port": given.metrics,
        "min-worker-port": 0,
        "max-worker-port": 0,
        "num-cpus": order.cpus,
        "num-gpus": order.gpus,
        "object-store-memory": order.object_store,
        "resources": json.dumps({"plane": 1.0}),
    }
    if role == "head":
        options |= {"port": given.gcs, "temp-dir": folder, "include-dashboard": "false"}
        options |= {"ray-client-server-port": given.client, "dashboard-host": LOOPBACK}
    else:
        options |= {"address": f"{order.head}:{given.gcs}", "temp-dir": folder}
    head = ["--head"] if role == "head" else []
    listed = [f"--{name}={value}" for name, value in options.items()]
    return [
        # -P: keeps modules in the launch folder from being imported.
        *(sys.executable, "-P", "-m", "ray.scripts.scripts", "start", *head, *listed),
        *("--disable-usage-stats", "--block", "--log-style=record", "--log-color=false"),
    ]


def own_address(peer: str) -> str:
    """Return this machine's address on the route to another; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((peer, 9))
        return str(probe.getsockname()[0])


def _needed(order: Order, role: str) -> tuple[int, ...]:
    given = order.ports
    others = {given.claim} if role == "head" else {given.claim, given.gcs}
    return tuple(port for port in given.all() if port not in others)


def _serve(order: Order, role: str, own: str, folder: Path, memory: leftovers.SharedMemory) -> int:
    """Serve until the end."""
    paths = ServingPaths(order.folder)
    environment = offline.environment(os.environ, paths)
    environment |= {"VLLM_HOST_IP": own, FOLDER: str(folder)}
    environment |= {"TMPDIR": str(folder), "RAY_TMPDIR": str(leftovers.of_ray(folder))}
    environment |= first_gpus(order.gpus, environment)
    running: list[subprocess.Popen[bytes]] = []
    lease = Lease(paths.lease(order.nonce), order.lease_s)

    def is_over() -> bool:
        memory.look()
        # A shared file system that fails for a moment ends nothing; if it stays so, the lease does.
        with contextlib.suppress(OSError):
            if paths.is_stopped(order.nonce):
                return True
        if lease.is_over():
            with contextlib.suppress(OSError):  # the reader of this output may be gone too
                print("whoever ordered this plane is gone: it ends", flush=True)
            return True
        return False

    def start(*command: str) -> None:
        running.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL))

    if role == "worker" and not _await_head(order, running, is_over):
        return 0
    start(*ray_command(order, role, own, leftovers.of_ray(folder)))
    start(sys.executable, "-P", "-m", DOOR, str(paths.order))
    if role == "head" and _await_head(order, running, is_over):
        start(sys.executable, "-P", "-m", APPLICATION, str(paths.order))
    answers = False
    while not (status := _ended(running)):
        if is_over():
            return 0
        if not answers:
            with contextlib.suppress(OSError):
                answers = paths.endpoint.exists()
            if answers:
                memory.unname()
        time.sleep(_POLL_S)
    return status


def first_gpus(count: int, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that shows only the first GPUs; the others are left to trials."""
    if not count:
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(_gpus(count, given)[:count]), **gpus.order(given)}


def other_gpus(count: int, held: int, given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the GPUs after the first `count` of the `held` ones, as the variable names them."""
    return tuple(_gpus(held, given)[count:held])


def _gpus(held: int, given: Mapping[str, str]) -> list[str]:
    listed = given.get("CUDA_VISIBLE_DEVICES", "")
    return listed.split(",") if listed else [str(place) for place in range(held)]


def _ended(running: Iterable[subprocess.Popen[bytes]]) -> int:
    """Return the exit status of the first process that has ended (1 if that is 0), else 0."""
    for process in running:
        status = process.poll()
        if status is not None:
            parts = {APPLICATION: "what places the models", DOOR: "the node's door"}
            said = (said for module, said in parts.items() if module in str(process.args))
            what = next(said, "Ray")
            print(f"{what} ended with status {status}", flush=True)
            return status or 1
    return 0


def _await_head(
    order: Order, running: Iterable[subprocess.Popen[bytes]], is_over: Callable[[], bool]
) -> bool:
    """Wait until the head's Ray accepts connections; return False if the wait became pointless.

    Raises TimeoutError.
    """
    until = time.monotonic() + order.ready_s
    while not is_over() and all(process.poll() is None for process in running):
        with contextlib.suppress(OSError):
            socket.create_connection((order.head, order.ports.gcs), timeout=_POLL_S * 4).close()
            return True
        if time.monotonic() > until:
            raise TimeoutError(f"no Ray answers at {order.head}:{order.ports.gcs}")
        time.sleep(_POLL_S)
    return False


def _ignore() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _tell(number: int, frame: FrameType | None) -> None:
    _ignore()  # a second signal would interrupt the cleanup that the first one started
    raise EndSignal(signal.Signals(number).name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
