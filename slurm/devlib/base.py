"""What every part uses: where the state lies, commands, waiting, and failures with their mend."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

DEFAULT_FOLDER = "/var/lib/hpcsci-devcluster"
USER = "researcher"
CONTROLLER = "ctl"
MARK = "HPCSCI_DEVCLUSTER_MARK"  # the variable by which our processes are found again
_PRIVATE_TO_NODES = ("/tmp", "/var/tmp", "/dev/shm", "/proc", "/sys", "/dev")


class Failed(Exception):
    """Something did not work; the message is one line and names the mend."""


@dataclass(frozen=True)
class Places:
    """Every path of a cluster's state. All below `folder`; only `cache` outlives `down`."""

    folder: Path

    @classmethod
    def from_environment(cls) -> Places:
        """Return HPCSCI_DEVCLUSTER_DIR's places, or the default's. Raises Failed."""
        folder = Path(os.environ.get("HPCSCI_DEVCLUSTER_DIR") or DEFAULT_FOLDER)
        if not folder.is_absolute() or any(c in str(folder) for c in " :,\"'"):
            raise Failed(f"HPCSCI_DEVCLUSTER_DIR={folder}: give an absolute path in plain letters")
        resolved = folder.resolve()
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
        """Configuration and the munge key."""
        return self.folder / "etc"

    @property
    def slurm_conf(self) -> Path:
        """The private slurm.conf; SLURM_CONF names it."""
        return self.etc / "slurm.conf"

    @property
    def run(self) -> Path:
        """Sockets."""
        return self.folder / "run"

    @property
    def munge_socket(self) -> Path:
        """Where munged listens."""
        return self.run / "munge.socket"

    @property
    def database_socket(self) -> Path:
        """Where MariaDB listens."""
        return self.run / "database" / "socket"

    @property
    def log(self) -> Path:
        """One file a daemon."""
        return self.folder / "log"

    @property
    def home(self) -> Path:
        """The ordinary user's home, which all nodes share."""
        return self.folder / "home" / USER

    def node(self, name: str) -> Path:
        """A node's own disk: its /tmp and /var/tmp, and slurmd's spool."""
        return self.folder / "nodes" / name

    @property
    def record(self) -> Path:
        """What `up` made, for `down`."""
        return self.folder / "cluster.json"


@dataclass
class Cluster:
    """What `up` was asked for and what it changed on the machine."""

    places: Places
    nodes: int = 4
    accounting: bool = True
    settings: dict[str, str] = field(default_factory=dict)
    fuse_mode: int | None = None  # /dev/fuse's permissions before `up` opened it
    made_netns_mount: bool = False  # /run/netns was no mount before

    @property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [f"n{i}" for i in range(1, self.nodes + 1)]

    def save(self) -> None:
        """Write the record, whole or not at all."""
        kept = {k: v for k, v in asdict(self).items() if k != "places"}
        new = self.places.record.with_suffix(".new")
        new.write_text(json.dumps(kept))
        new.rename(self.places.record)

    @classmethod
    def load(cls, places: Places) -> Cluster | None:
        """Return the cluster that `up` left, or None."""
        try:
            return cls(places, **json.loads(places.record.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):  # half written: enough for `down`
            return cls(places)

    @classmethod
    def require(cls, places: Places) -> Cluster:
        """Return the cluster that is up. Raises Failed."""
        found = cls.load(places)
        if found is None:
            raise Failed("no cluster is up: slurm/devcluster up")
        return found


def require_root() -> None:
    """Raise Failed unless this process is root."""
    if os.geteuid() != 0:
        raise Failed("only root can make namespaces, bridges and users: run it with sudo")


def say(text: str) -> None:
    """Tell what is being done, at once."""
    print(text, flush=True)


def clean_environment(places: Places, name: str) -> dict[str, str]:
    """Return the environment of daemons and of Slurm's commands: nothing of the caller's."""
    mark = f"{places.folder}:{name}"
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": path, "LANG": "C", "SLURM_CONF": str(places.slurm_conf), MARK: mark}


def run(
    argv: Sequence[str | Path],
    places: Places | None = None,
    check: bool = True,
    timeout: float = 600,
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, its output kept. Raises Failed with the last line it said.

    With `places` it gets the cluster's clean environment; `variables` are added.
    """
    given = clean_environment(places, "command") if places else dict(os.environ)
    env = given | dict(variables or {})
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        raise Failed(f"{words[0]} is not installed: slurm/devcluster install") from None
    except subprocess.TimeoutExpired:
        if not check:
            return subprocess.CompletedProcess(words, 124, "", f"no answer within {timeout:.0f} s")
        raise Failed(f"`{' '.join(words[:4])}` did not end within {timeout:.0f} s") from None
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise Failed(f"`{' '.join(words[:6])}` failed: {said[-1].strip()}")
    return done


def wait_until(ready: Callable[[], bool], within_s: float = 60, pause_s: float = 0.2) -> bool:
    """Return True once `ready()` is true, False after `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True
