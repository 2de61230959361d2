"""What a plane is to serve, where and how. Written by who starts it, read on every node."""

from __future__ import annotations

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
