"""What a plane is to serve, where and how. Written by who starts it, read on every node."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.models.serving.ports import Ports
from hpcscientist.records.base import Record


class ServedModel(Record):
    """One model. `name` is what clients ask for; `bundle` what a worker of its engine takes.

    `workers` is the number of an engine's workers (tensor times pipeline parallelism),
    `within_node` whether all of them must lie on one node. `at_once`: how many requests all its
    replicas together answer without loss to each other.
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
    """A plane. Sizes in bytes, times in seconds.

    `nonce` tells the endpoint of this start from that of an earlier one. `nodes` are host
    names, the head first, `head` its numeric address. `cpus` are Ray's logical CPUs a node:
    more than cores, because Ray counts one for each replica and each worker of an engine.
    `owner` names the plane in its temporary folders. `gpus` are the first of each node;
    `memory_mb` is what engines take of a node's memory at most, in MiB. Nodes end by themselves
    once they have seen nothing of who ordered it for `lease_s`.
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
    """Where one replica of a model answers. `url` is of its node, and ends in /v1."""

    model: str
    url: str


class Endpoint(Record):
    """Where models answer: all of them at `url`, on each node's own loopback address, and each of
    the `replicas` that answer now by itself.
    """

    nonce: str
    url: str
    replicas: tuple[Address, ...]
    models: tuple[str, ...]
    nodes: tuple[str, ...]
    head: str
    contexts: dict[str, int]
    started: float


# The folder of a model plane: what the plane, its nodes and its clients tell each other.
#
# It lies in the run directory, on a file system that every node sees. Nothing secret stands in it
# but the three files of mode 0600.


@dataclass(frozen=True, slots=True)
class ServingPaths:
    """The paths of one plane."""

    root: Path

    @property
    def key(self) -> Path:
        """What clients of the endpoint must show. Mode 0600."""
        return self.root / "key"

    @property
    def token(self) -> Path:
        """What the processes of its Ray cluster must show each other. Mode 0600."""
        return self.root / "token"

    @property
    def certificate(self) -> Path:
        """What shows the servers of a plane of several nodes to be its own."""
        return self.root / "certificate.pem"

    @property
    def certificate_key(self) -> Path:
        """What only these servers have. Mode 0600."""
        return self.root / "certificate.key"

    @property
    def order(self) -> Path:
        """What is to be served, where and how; written anew at each start."""
        return self.root / "order.json"

    @property
    def endpoint(self) -> Path:
        """Where the models answer; it exists from the moment they do."""
        return self.root / "endpoint.json"

    @property
    def state(self) -> Path:
        """What the plane waits for, one line."""
        return self.root / "state"

    @property
    def request(self) -> Path:
        """What `hpcsci serve` was asked for; a plane beside a campaign has none."""
        return self.root / "request.json"

    @property
    def lock(self) -> Path:
        """Who serves from this folder, where `hpcsci serve` does."""
        return self.root / ".driver"

    def stop(self, nonce: str) -> Path:
        """Its existence asks every node of one start to end; a step cannot be told otherwise."""
        return self.root / f"stop-{nonce}"

    def lease(self, nonce: str) -> Path:
        """What shows every node of one start that whoever ordered it lives."""
        return self.root / f"lease-{nonce}"

    def is_stopped(self, nonce: str) -> bool:
        """Tell whether one start was asked to end.

        The folder is listed: NFS may remember for a minute that a file is not there, but asks
        anew whenever a folder is opened.
        """
        wanted = self.stop(nonce).name
        return any(entry == wanted for entry in os.listdir(self.root))  # noqa: PTH208 (see above)

    @property
    def logs(self) -> Path:
        """Logs, one file a node, and Ray's own of a start that failed."""
        return self.root / "logs"

    def log(self, node: str) -> Path:
        """What a node's processes printed."""
        return self.logs / f"{node}.log"

    def job_log(self, job_id: str) -> Path:
        """What the job printed that serves from this folder."""
        return self.logs / f"job-{job_id}.log"
