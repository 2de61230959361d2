"""The request from the doctor to a compute node, and the node's report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.base import Record
from hpcscientist.records.site import Host
from hpcscientist.records.trial import Outcome

# The paths in the temporary folder that the doctor and a compute node share.


@dataclass(frozen=True, slots=True)
class DoctorFolder:
    """A temporary folder on the file system where run directories would be."""

    root: Path

    @property
    def request(self) -> Path:
        """The request to the node; the doctor writes it."""
        return self.root / "request.json"

    @property
    def report(self) -> Path:
        """The node's report; it exists once the node is done."""
        return self.root / "report.json"

    @property
    def taken(self) -> Path:
        """A file that the doctor creates, and that the node then tries to create exclusively."""
        return self.root / "taken"

    @property
    def script(self) -> Path:
        """The script for `sbatch`."""
        return self.root / "job.sh"

    @property
    def data(self) -> Path:
        """The rehearsal's public data."""
        return self.root / "data"

    @property
    def labels(self) -> Path:
        """The rehearsal's labels, which its candidate must not see."""
        return self.root / "labels"

    def rehearsal(self, network: str) -> TrialPaths:
        """Return the folder of one trial of the rehearsal."""
        return TrialPaths(self.root / f"rehearsal-{network}")

    def said(self) -> str:
        """Return the last line that the job printed; "" if there is none (yet)."""
        lines: list[str] = []
        for log in sorted(self.root.glob("*.out")):
            lines += log.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


class FileIdentity(Record):
    """A file or folder, identified by its device and inode numbers.

    Device numbers are valid on one machine only; between machines only the inodes are compared.
    """

    name: str
    path: str
    identity: tuple[int, int] = (0, 0)


class NodeRequest(Record):
    """The request to a node. `shared` are the folders that campaigns need on every node."""

    host: Host
    image: str | None
    gpus: int
    shared: tuple[FileIdentity, ...]


class Walls(Record):
    """What the rehearsal's candidate should not reach, see or find.

    `variable` is in the worker's environment, `process` in its command line.
    """

    addresses: tuple[tuple[str, int], ...]
    places: tuple[FileIdentity, ...]
    variable: str
    process: str


class Inside(Record):
    """What the rehearsal's candidate found. `limits` are hard limits, -1 for none."""

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
    """One trial of the rehearsal. `inside` is None if the trial was not scored."""

    network: str
    outcome: Outcome
    seconds: float
    inside: Inside | None = None


class Scratch(Record):
    """Node-local space for private files. `fault` is why there is none, "" if there is."""

    path: str
    kind: str = ""
    free_mb: int = 0
    fault: str = ""


class NodeReport(Record):
    """A node's report. `written_at` is in seconds since the epoch, by the node's clock.

    `apptainer`: its version, "" if there is none. `namespaces`: whether an unprivileged user can
    create a user namespace. `unseen`: shared folders that are not the same on the node.
    `exclusive`: whether exclusive creation failed on the node for a file created elsewhere, as it
    must. `gpu_memory_mb`: MiB of each GPU.
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
