"""Helpers for tests on a real Slurm: an ordinary user, a shared folder and an interpreter.

Fixtures (in conftest.py): `cluster`, for the session, skips if no Slurm answers; `shared`, for a
test, is an empty folder that every node sees and the user owns. The development cluster is such a
Slurm: `slurm/devcluster up`.

HPCTEST_SHARED names the shared file system, HPCTEST_USER the ordinary user, HPCTEST_SERVING_PYTHON
an interpreter with the engine if the tests' own has none, HPCTEST_SERVING_IMAGE an image with the
engine (tests/serving_image).
"""

from __future__ import annotations

import getpass
import hashlib
import importlib.util
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from hpcscientist.execution.backends.slurm.commands import Slurm

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 300
# Every node of the development cluster has its own, as on many real clusters.
PRIVATE_TO_NODES = ("/tmp", "/var/tmp", "/dev/shm")
# The development cluster's configuration, unless SLURM_CONF is set.
DEVCLUSTER = Path(os.environ.get("HPCSCI_DEVCLUSTER_DIR") or "/var/lib/hpcsci-devcluster")
DEVCLUSTER_COMMAND = Path(os.environ.get("HPCTEST_DEVCLUSTER") or ROOT / "slurm" / "devcluster")
SYSTEM_PYTHON = Path("/usr/bin/python3")
COMMANDS = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
_FIELDS = "--format=%i|%T|%r|%j|%k"


def why_not() -> str | None:
    """Return why tests on Slurm cannot run here; None if they can."""
    conf = DEVCLUSTER / "etc" / "slurm.conf"
    if conf.exists():
        os.environ.setdefault("SLURM_CONF", str(conf))
    if not Slurm.is_there():
        return "there is no Slurm here: slurm/devcluster up"
    if not Slurm(command_s=10).answers():
        return "no Slurm answers: slurm/devcluster up"
    return None


def devcluster(
    *arguments: str | Path, timeout: float = LIMIT_S
) -> subprocess.CompletedProcess[str]:
    """Run the development cluster's command; its output and errors are merged."""
    return subprocess.run(
        [DEVCLUSTER_COMMAND, *arguments],
        env=os.environ | {"HPCSCI_DEVCLUSTER_DIR": str(DEVCLUSTER)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )


def is_devcluster() -> bool:
    """Return whether the Slurm that answers is the development cluster, and we may enter it."""
    if os.geteuid() != 0 or not os.access(DEVCLUSTER_COMMAND, os.X_OK):
        return False
    ours = devcluster("env").stdout.replace('"', "").splitlines()
    return f"export SLURM_CONF={os.environ.get('SLURM_CONF')}" in ours


def beside_the_nodes() -> tuple[list[str], dict[str, str]]:
    """Return the prefix of an srun command, and its variables: srun talks to the nodes directly.

    The development cluster's nodes are not reachable from outside; a real cluster needs no prefix.
    """
    if not is_devcluster():
        return [], {}
    pid = devcluster("pid", "ctl").stdout.strip()
    conf = DEVCLUSTER / "inside" / "slurm.conf"  # the controller's address seen from inside
    return ["nsenter", f"--target={pid}", "--net", "--"], {"SLURM_CONF": str(conf)}


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A row of the queue."""

    job_id: str
    state: str
    reason: str
    name: str
    comment: str


@dataclass
class Cluster:
    """A cluster as one user sees it. `folder` is this session's, on the shared file system."""

    user: str
    folder: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the user's processes: nothing of this process but Slurm's location."""
        kept = {k: v for k, v in os.environ.items() if k in ("SLURM_CONF", "LANG")}
        home = {"HOME": str(self.folder / "home"), "USER": self.user, "LOGNAME": self.user}
        commands = [str(Path(shutil.which("sbatch") or "/").parent), *COMMANDS]
        return {"PATH": ":".join(commands), **kept, **home, **self.extra}

    @cached_property
    def python(self) -> Path:
        """An interpreter with this project that the user and every node can run."""
        return _interpreter(self)

    def command(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> list[str]:
        """Return the command line that runs something as the user."""
        before, more = beside_the_nodes() if arguments[0] == "srun" else ([], {})
        given = self.environment | dict(env or {}) | more
        line = ["env", "-i", *(f"{k}={v}" for k, v in given.items()), *map(str, arguments)]
        mine = self.user == getpass.getuser()
        return [*before, *(line if mine else ["runuser", "-u", self.user, "--", *line])]

    def run(
        self,
        *arguments: str | Path,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        timeout: float = LIMIT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the user until it ends."""
        command = self.command(*arguments, env=env)
        return subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False
        )

    def start(
        self, *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a command as the user, with pipes for its output."""
        return subprocess.Popen(
            self.command(*arguments, env=env),
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hpcsci(
        self, *arguments: str | Path, cwd: Path, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run `hpcsci` as the user, on this machine as on a login node."""
        return self.run(*self.hpcsci_command, *arguments, cwd=cwd, **options)

    @property
    def hpcsci_command(self) -> list[str]:
        """The words that replace `hpcsci` on the user's command line."""
        return [str(self.python), "-P", "-m", "hpcscientist.cli.main"]

    def queue(self, mark: str = "") -> list[QueuedJob]:
        """Return the user's active jobs; with a mark, those whose name or comment contains it."""
        done = self.run("squeue", "--me", "--noheader", _FIELDS, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        rows = [QueuedJob(*line.split("|")) for line in done.stdout.splitlines()]
        return [row for row in rows if mark in row.name or mark in row.comment]

    def make_folder(self, name: str = "t") -> Path:
        """Return a new empty folder that every node sees, owned by the user."""
        path = self.folder / f"{name}-{secrets.token_hex(3)}"
        path.mkdir()
        self.own(path)
        return path

    def own(self, *paths: Path) -> None:
        """Give files or folders, with their content, to the user."""
        if os.geteuid() != 0:
            return
        entry = pwd.getpwnam(self.user)
        for path in paths:
            for each in (path, *path.rglob("*")):
                os.chown(each, entry.pw_uid, entry.pw_gid, follow_symlinks=False)

    def as_user(self, user: str) -> Cluster:
        """Return the same cluster for another user, with a separate home."""
        other = Cluster(user, self.folder / f"as-{user}", dict(self.extra))
        other.folder.mkdir(exist_ok=True)
        (other.folder / "home").mkdir(exist_ok=True)
        other.own(other.folder)
        other.python = self.python
        return other


def open_cluster() -> Cluster:
    """Return the cluster for a test session, in a new folder; `close_cluster` removes it."""
    folder = shared_root() / f"s-{os.getpid()}-{secrets.token_hex(3)}"
    folder.mkdir(parents=True)
    cluster = Cluster(ordinary_user(), folder)
    (folder / "home").mkdir()
    cluster.own(folder)
    return cluster


def close_cluster(cluster: Cluster) -> None:
    """Remove the session's folder."""
    shutil.rmtree(cluster.folder, ignore_errors=True)


def shared_root() -> Path:
    """Return the folder for tests on the file system that every node sees."""
    own = "/srv/hpcsci-tests" if os.geteuid() == 0 else "~/.hpcsci-tests"
    return Path(os.environ.get("HPCTEST_SHARED") or own).expanduser()


def ordinary_user() -> str:
    """Return the ordinary user that tests run as, if this process may become that user."""
    if os.geteuid() != 0:
        return getpass.getuser()
    return os.environ.get("HPCTEST_USER", "researcher")


def _interpreter(cluster: Cluster) -> Path:
    mine = Path(sys.executable)
    asked = cluster.run(
        mine, "-P", "-c", "import hpcscientist; print(hpcscientist.__file__)", cwd=cluster.folder
    )
    seen = (str(mine), sys.base_prefix, asked.stdout.strip())
    if asked.returncode == 0 and not any(path.startswith(PRIVATE_TO_NODES) for path in seen):
        return mine
    return _build_interpreter(cluster.folder / "venv")


def _build_interpreter(venv: Path) -> Path:
    """Create an environment with this project; its dependencies are kept for later sessions."""
    if not SYSTEM_PYTHON.exists():
        pytest.skip(f"no interpreter that every node can run: {SYSTEM_PYTHON} is missing")
    _checked(str(SYSTEM_PYTHON), "-m", "venv", str(venv))
    python = venv / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q", "--no-warn-script-location"]
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    needed = [*needed, "hatchling>=1.24"]
    key = hashlib.sha256("\n".join([*needed, str(SYSTEM_PYTHON.resolve())]).encode()).hexdigest()
    kept = shared_root() / f"dependencies-{key[:12]}"
    if not kept.exists():
        building = kept.with_name(f"{kept.name}.{os.getpid()}")
        _checked(*pip, "--target", str(building), *needed)
        if not kept.exists():
            building.rename(kept)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{kept}\n")
    _checked(*pip, "--no-deps", "--no-build-isolation", str(ROOT))
    return python


def _checked(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def engine_python() -> str:
    """Return an interpreter with the engine that every node sees; skip the test if none exists."""
    own = sys.executable if importlib.util.find_spec("vllm") else ""
    found = os.environ.get("HPCTEST_SERVING_PYTHON") or own
    if not found:
        pytest.skip("NOT TESTED: no engine here, and HPCTEST_SERVING_PYTHON names no interpreter")
    return found


def engine_image() -> str:
    """Return an image with the engine that every node sees; skip the test if none exists."""
    found = os.environ.get("HPCTEST_SERVING_IMAGE", "")
    if not found:
        pytest.skip("NOT TESTED: HPCTEST_SERVING_IMAGE names no image; tests/serving_image")
    return found
