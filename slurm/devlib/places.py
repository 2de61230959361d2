"""Where a cluster's state lies, what `up` records of it, and the lock of its folder."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from devlib.base import CONTROLLER, PATH, USER, Failed, say, write

DEFAULT_FOLDER = "/var/lib/hpcsci-devcluster"
_PRIVATE_TO_NODES = ("/tmp", "/var/tmp", "/dev/shm", "/proc", "/sys", "/dev")
_LONGEST = 70  # a socket's path may have 107 bytes
_LOCK_S = 900.0  # the first `up` installs packages


@dataclass(frozen=True)
class Places:
    """Every path of a cluster's state. All below `folder`; only `cache` outlives `down`."""

    folder: Path

    @classmethod
    def from_environment(cls) -> Places:
        """Return HPCSCI_DEVCLUSTER_DIR's places, or the default's. Raises Failed."""
        folder = Path(os.environ.get("HPCSCI_DEVCLUSTER_DIR") or DEFAULT_FOLDER)
        if not folder.is_absolute() or any(c in str(folder) for c in " :,\"'\n"):
            raise Failed(f"HPCSCI_DEVCLUSTER_DIR={folder}: give an absolute path in plain letters")
        resolved = folder.resolve()
        if len(str(resolved)) > _LONGEST:
            raise Failed(f"HPCSCI_DEVCLUSTER_DIR={folder}: give at most {_LONGEST} letters")
        for place in map(Path, _PRIVATE_TO_NODES):
            if place == resolved or place in resolved.parents:
                raise Failed(
                    f"{folder} is private to each node: put HPCSCI_DEVCLUSTER_DIR elsewhere"
                )
        return cls(resolved)

    @property
    def cache(self) -> Path:
        """The image; stays after `down`."""
        return self.folder / "cache"

    @property
    def etc(self) -> Path:
        """slurm.conf. The nodes see `inside` at this place, this machine sees `outside`."""
        return self.folder / "etc"

    @property
    def inside(self) -> Path:
        """Configuration as the nodes and the daemons see it, and the munge key."""
        return self.folder / "inside"

    @property
    def slurm_conf(self) -> Path:
        """What SLURM_CONF names, here and in the nodes."""
        return self.etc / "slurm.conf"

    @property
    def run(self) -> Path:
        """Sockets, and a record of every process."""
        return self.folder / "run"

    @property
    def munge_socket(self) -> Path:
        """Where munged listens."""
        return self.run / "munge.socket"

    @property
    def database_socket(self) -> Path:
        """Where MariaDB listens."""
        return self.run / "mariadb.socket"

    @property
    def database(self) -> Path:
        """MariaDB's data: memory of the controller's side."""
        return self.folder / "database"

    @property
    def state(self) -> Path:
        """What slurmctld keeps."""
        return self.folder / "state"

    @property
    def log(self) -> Path:
        """One file a daemon."""
        return self.folder / "log"

    @property
    def homes(self) -> Path:
        """Where the ordinary user's home is, which all nodes share."""
        return self.folder / "home"

    @property
    def nodes(self) -> Path:
        """The nodes' own disks."""
        return self.folder / "nodes"

    def node(self, name: str) -> Path:
        """A node's own disk: its /tmp and /var/tmp, and slurmd's spool."""
        return self.nodes / name

    @property
    def record(self) -> Path:
        """What `up` was asked for."""
        return self.folder / "cluster.json"

    @property
    def lock(self) -> Path:
        """Held by the command that changes the cluster."""
        return self.folder / "lock"

    @property
    def cgroup(self) -> str:
        """The name of the cluster's cgroup in every hierarchy."""
        return f"hpcsci-devcluster-{hashlib.sha256(bytes(self.folder)).hexdigest()[:8]}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of daemons and of Slurm's commands: nothing of the caller's."""
        socket = str(self.database_socket)  # MariaDB's client library looks there
        database = {"MYSQL_UNIX_PORT": socket, "MARIADB_UNIX_PORT": socket}
        slurm = {"SLURM_CONF": str(self.slurm_conf)}
        return {"PATH": PATH, "LC_ALL": "C.UTF-8", "HOME": "/root", **slurm, **database}


@dataclass
class Cluster:
    """What `up` was asked for and what it chose. `settings`: what `set` changed."""

    places: Places
    user: str = USER
    nodes: int = 4
    cpus: int = 2
    accounting: bool = True
    first_job: int = 1
    controller_port: int = 0
    database_port: int = 0
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [f"n{i}" for i in range(1, self.nodes + 1)]

    def save(self) -> None:
        """Write the record, whole or not at all."""
        kept = {k: v for k, v in asdict(self).items() if k != "places"}
        write(self.places.record, json.dumps(kept) + "\n")

    @classmethod
    def load(cls, places: Places) -> Cluster:
        """Return the cluster that `up` recorded. Raises Failed."""
        try:
            return cls(places, **json.loads(places.record.read_text()))
        except FileNotFoundError:
            raise Failed("no cluster is up: slurm/devcluster up") from None
        except (ValueError, TypeError):
            raise Failed(f"{places.record} is of another version: slurm/devcluster down") from None

    def check(self, node: str, controller: bool = False) -> None:
        """Raise Failed for a name that is no node's (nor the controller's, where it may be)."""
        names = [*self.names, CONTROLLER] if controller else self.names
        if node not in names:
            raise Failed(f"no node {node!r}: there are {', '.join(names)}")


@contextlib.contextmanager
def locked(places: Places) -> Iterator[None]:
    """Let no other command make, change or remove this cluster. Raises Failed."""
    held = _lock(places)
    try:
        if places.folder.stat().st_uid != 0:
            raise Failed(f"{places.folder} belongs to somebody else: give root's own folder")
        yield
    finally:
        os.close(held)


def _lock(places: Places) -> int:
    deadline, told = time.monotonic() + _LOCK_S, False
    while True:
        places.folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # `down` removes it while it is held
            held = os.open(places.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(places.lock.stat(), os.fstat(held)):
                    return held
            except BlockingIOError:
                pass
            except FileNotFoundError:
                os.close(held)
                continue
            os.close(held)
        if not told:
            say(f"waiting for another devcluster command on {places.folder}")
            told = True
        if time.monotonic() > deadline:
            raise Failed(f"another devcluster command has held {places.lock} for long: end it")
        time.sleep(0.1)
