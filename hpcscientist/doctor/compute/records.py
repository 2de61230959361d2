"""What the driver's machine tells a compute node to look at, and what the node found."""

from __future__ import annotations

from hpcscientist.records.base import Record
from hpcscientist.records.site import Host
from hpcscientist.records.trial import Outcome


class Place(Record):
    """A file or folder, and which one it is: device and inode numbers.

    Device numbers mean something on one machine only; between machines the inode is compared.
    """

    name: str
    path: str
    identity: tuple[int, int] = (0, 0)


class Request(Record):
    """What a node is asked. `shared`: folders that campaigns need on every node."""

    host: Host
    image: str | None
    gpus: int
    shared: tuple[Place, ...]


class Walls(Record):
    """What the rehearsal's candidate should not reach, see or find.

    `variable` is in the worker's environment, `process` in its command line.
    """

    addresses: tuple[tuple[str, int], ...]
    places: tuple[Place, ...]
    variable: str
    process: str


class Inside(Record):
    """What the rehearsal's candidate found. `limits`: hard limits, -1 for none."""

    python: str
    interfaces: tuple[str, ...]
    reached: tuple[tuple[str, int], ...]
    seen: tuple[str, ...]
    mounts: tuple[str, ...]
    environment: bool
    processes: bool
    is_root: bool
    limits: dict[str, int]


class Rehearsed(Record):
    """One trial of the rehearsal. `inside` is None where it was not scored; seconds."""

    network: str
    outcome: Outcome
    seconds: float
    inside: Inside | None = None


class Scratch(Record):
    """Node-local room for private files. MiB; `fault`: why there is none, "" otherwise."""

    path: str
    kind: str = ""
    free_mb: int = 0
    fault: str = ""


class NodeReport(Record):
    """What a node found. `written_at`: seconds since the epoch, by its own clock.

    `apptainer`: its version, "" where there is none. `namespaces`: whether an unprivileged
    user may make one. `unseen`: shared folders that are not the same there. `exclusive`:
    whether a file made elsewhere kept the node from making it. `gpu_memory_mb`: of each GPU.
    """

    node: str
    written_at: float
    python: str
    executable: str
    package: str
    cpus: int
    memory_mb: int
    apptainer: str
    namespaces: bool
    fuse: bool
    gpus: tuple[str, ...]
    scratch: Scratch
    unseen: tuple[str, ...]
    exclusive: bool
    rehearsals: tuple[Rehearsed, ...]
    gpu_memory_mb: tuple[int, ...] = ()
