"""The order of a plane: what it serves, where and how; and the files in the plane's folder.

The driver writes the order, and every node reads it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.records.base import Record

# The ports of a plane: the same on each of its nodes, derived from the job's number.
#
# So the planes of two jobs of one user on a shared node do not collide. If another program uses
# a port, the next block is tried.


# Below the range that Linux assigns by itself (32768 up), above the well-known ports.
_FIRST, _LAST, _BLOCK = 20_000, 32_000, 16
_STRIDE = 257  # blocks; coprime to their number, so all are reached


class Ports(Record):
    """Ports of one plane. `http` is bound to each node's loopback address, the others are Ray's.

    Nothing listens at `claim`: each node's process holds it (`hold`) for as long as it serves.
    """

    gcs: int
    client: int
    node_manager: int
    object_manager: int
    agent_http: int
    agent_grpc: int
    runtime_env: int
    metrics: int
    http: int
    claim: int

    def all(self) -> tuple[int, ...]:
        """Return every port."""
        return tuple(self.model_dump().values())


def port_block(number: int, attempt: int = 0) -> Ports:
    """Return the ports for a job's number (or a process id); another block for each attempt."""
    blocks = (_LAST - _FIRST) // _BLOCK
    start = _FIRST + (number + attempt * _STRIDE) % blocks * _BLOCK
    names = Ports.model_fields
    return Ports(**{name: start + offset for offset, name in enumerate(names)})


def ports_taken(wanted: Iterable[int], addresses: Iterable[str]) -> list[int]:
    """Return the ports that cannot be bound on one of this machine's addresses now."""
    listed = tuple(addresses)
    return [port for port in wanted if not all(_is_free(port, address) for address in listed)]


def hold_port(port: int) -> socket.socket | None:
    """Bind a port of this machine's loopback address; return None if it is taken.

    The port is free again once the socket is closed. If two planes start with the same block at
    once and both find it free, only one gets this port.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        held.bind(("127.0.0.1", port))
    except OSError:
        held.close()
        return None
    return held


def _is_free(port: int, address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


class ServedModel(Record):
    """One model. `name` is what clients ask for; `bundle` is Ray's resources for a worker.

    `workers` is the number of an engine's workers (tensor times pipeline parallelism),
    `within_node` whether all of them must be on one node. `at_once` is how many requests all its
    replicas together answer without slowing each other down.
    """

    name: str
    folder: str
    replicas: int
    workers: int
    within_node: bool
    bundle: dict[str, float]
    engine: dict[str, str | int | float | bool]
    variables: dict[str, str]
    at_once: int = 1


class Order(Record):
    """The order of a plane. Sizes in bytes, times in seconds.

    `nonce` distinguishes the endpoint of this start from that of an earlier one. `nodes` are host
    names, the head first; `head` is its numeric address. `cpus` are Ray's logical CPUs a node: more
    than cores, because Ray counts one for each replica and each worker of an engine. `owner` names
    the plane in its temporary folders. `gpus` is the number of GPUs a node; the plane uses the
    first of each. `memory_mb` is the most that engines take of a node's memory, in MiB. Nodes end
    by themselves once the driver has shown no sign of life for `lease_s`.
    """

    nonce: str
    owner: str
    root: str
    nodes: tuple[str, ...]
    head: str
    ports: Ports
    models: tuple[ServedModel, ...]
    cpus: int
    gpus: int
    object_store: int
    scratch: str
    ready_s: float
    memory_mb: int = 0
    lease_s: float = 60.0

    @property
    def contexts(self) -> dict[str, int]:
        """The models' contexts in tokens, by their names."""
        return {model.name: int(model.engine.get("max_model_len", 0)) for model in self.models}

    @property
    def folder(self) -> Path:
        """The plane's folder; see `ServingPaths`."""
        return Path(self.root)


class Address(Record):
    """Where one replica of a model answers. `url` names its node, and ends in /v1."""

    model: str
    url: str


class Endpoint(Record):
    """Where models answer.

    All of them answer at `url`, on each node's own loopback address. `replicas` lists the address
    of each replica that answers now.
    """

    nonce: str
    url: str
    replicas: tuple[Address, ...]
    models: tuple[str, ...]
    nodes: tuple[str, ...]
    head: str
    contexts: dict[str, int]
    started: float


# The folder of a model plane: files through which the plane, its nodes and its clients communicate.
#
# It lies in the run directory, on a file system that every node sees. Only the three files of mode
# 0600 are secret.


@dataclass(frozen=True, slots=True)
class ServingPaths:
    """The paths of one plane."""

    root: Path

    @property
    def key(self) -> Path:
        """The key that clients of the endpoint must send. Mode 0600."""
        return self.root / "key"

    @property
    def token(self) -> Path:
        """The token that processes of the Ray cluster must send each other. Mode 0600."""
        return self.root / "token"

    @property
    def certificate(self) -> Path:
        """The certificate that identifies the servers of a plane of several nodes."""
        return self.root / "certificate.pem"

    @property
    def certificate_key(self) -> Path:
        """The private key of the certificate. Mode 0600."""
        return self.root / "certificate.key"

    @property
    def order(self) -> Path:
        """What to serve, where and how; written anew at each start."""
        return self.root / "order.json"

    @property
    def endpoint(self) -> Path:
        """Where the models answer; the file exists as soon as they do."""
        return self.root / "endpoint.json"

    @property
    def state(self) -> Path:
        """What the plane waits for, one line."""
        return self.root / "state"

    @property
    def request(self) -> Path:
        """The arguments of `hpcsci serve`; a plane beside a campaign has no such file."""
        return self.root / "request.json"

    @property
    def lock(self) -> Path:
        """The lock of the `hpcsci serve` that serves from this folder."""
        return self.root / ".driver"

    def stop(self, nonce: str) -> Path:
        """Return the file whose existence asks every node of one start to end.

        There is no other way to notify a Slurm step.
        """
        return self.root / f"stop-{nonce}"

    def lease(self, nonce: str) -> Path:
        """Return the file that shows every node of one start that the driver is alive."""
        return self.root / f"lease-{nonce}"

    def is_stopped(self, nonce: str) -> bool:
        """Return whether one start was asked to end.

        Lists the folder: NFS may cache for a minute that a file does not exist, but asks the server
        whenever a folder is opened.
        """
        wanted = self.stop(nonce).name
        return any(entry == wanted for entry in os.listdir(self.root))  # noqa: PTH208 (see above)

    @property
    def logs(self) -> Path:
        """Logs: one file a node, and Ray's own logs of a failed start."""
        return self.root / "logs"

    def log(self, node: str) -> Path:
        """Return the file with the output of a node's processes."""
        return self.logs / f"{node}.log"

    def job_log(self, job_id: str) -> Path:
        """Return the file with the output of the job that serves from this folder."""
        return self.logs / f"job-{job_id}.log"
