"""Tests on a real Slurm: is it up, an ordinary user, a folder that every node sees, an interpreter.

Fixtures (in conftest.py): `cluster`, for the session, skips where no Slurm answers; `shared`, for
a test, is an empty folder that every node sees and the user owns. The development cluster is
one: `slurm/devcluster up`.

HPCTEST_SHARED names the shared file system; HPCTEST_USER the ordinary user;
HPCTEST_SERVING_PYTHON an interpreter with the engine, where the tests' own has none.
HPCTEST_SERVING_IMAGE an image with the engine (tests/serving_image).
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
# Every node of the development cluster has its own; so do many real ones.
PRIVATE_TO_NODES = ("/tmp", "/var/tmp", "/dev/shm")
# Where the development cluster's own configuration lies, unless the shell says SLURM_CONF.
DEVCLUSTER = Path(os.environ.get("HPCSCI_DEVCLUSTER_DIR") or "/var/lib/hpcsci-devcluster")
DEVCLUSTER_COMMAND = Path(os.environ.get("HPCTEST_DEVCLUSTER") or ROOT / "slurm" / "devcluster")
SYSTEM_PYTHON = Path("/usr/bin/python3")
COMMANDS = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
_FIELDS = "--format=%i|%T|%r|%j|%k"


def why_not() -> str | None:
    """Say why tests on Slurm cannot run here; None if they can."""
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
    """Run the development cluster's own command; its output and errors are one."""
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
    """Whether the Slurm that answers is the development cluster, and ours to enter."""
    if os.geteuid() != 0 or not os.access(DEVCLUSTER_COMMAND, os.X_OK):
        return False
    ours = devcluster("env").stdout.replace('"', "").splitlines()
    return f"export SLURM_CONF={os.environ.get('SLURM_CONF')}" in ours


def beside_the_nodes() -> tuple[list[str], dict[str, str]]:
    """What stands before srun, and the variables it needs: it talks to the nodes directly.

    Nobody reaches the development cluster's nodes from outside; on a real one nothing is needed.
    """
    if not is_devcluster():
        return [], {}
    pid = devcluster("pid", "ctl").stdout.strip()
    conf = DEVCLUSTER / "inside" / "slurm.conf"  # where the controller is, seen from there
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
    """The cluster as one user sees it. `folder`: this session's, on the shared file system."""

    user: str
    folder: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What the user's processes are given: nothing of this process but Slurm's place."""
        kept = {k: v for k, v in os.environ.items() if k in ("SLURM_CONF", "LANG")}
        home = {"HOME": str(self.folder / "home"), "USER": self.user, "LOGNAME": self.user}
        commands = [str(Path(shutil.which("sbatch") or "/").parent), *COMMANDS]
        return {"PATH": ":".join(commands), **kept, **home, **self.extra}

    @cached_property
    def python(self) -> Path:
        """An interpreter with this project, which the user and every node can run."""
        return _interpreter(self)

    def command(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> list[str]:
        """The command line that runs something as the user."""
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
        """Run a command as the user to its end."""
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
        """What stands for `hpcsci` on the user's command line."""
        return [str(self.python), "-P", "-m", "hpcscientist.cli.main"]

    def queue(self, mark: str = "") -> list[QueuedJob]:
        """The user's jobs that have not ended; with a mark, those whose name or comment has it."""
        done = self.run("squeue", "--me", "--noheader", _FIELDS, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        rows = [QueuedJob(*line.split("|")) for line in done.stdout.splitlines()]
        return [row for row in rows if mark in row.name or mark in row.comment]

    def make_folder(self, name: str = "t") -> Path:
        """An empty folder that every node sees, owned by the user."""
        path = self.folder / f"{name}-{secrets.token_hex(3)}"
        path.mkdir()
        self.own(path)
        return path

    def own(self, *paths: Path) -> None:
        """Give files or folders, with what is in them, to the user."""
        if os.geteuid() != 0:
            return
        entry = pwd.getpwnam(self.user)
        for path in paths:
            for each in (path, *path.rglob("*")):
                os.chown(each, entry.pw_uid, entry.pw_gid, follow_symlinks=False)

    def as_user(self, user: str) -> Cluster:
        """The same cluster for another user, with a home of their own."""
        other = Cluster(user, self.folder / f"as-{user}", dict(self.extra))
        other.folder.mkdir(exist_ok=True)
        (other.folder / "home").mkdir(exist_ok=True)
        other.own(other.folder)
        other.python = self.python
        return other


def open_cluster() -> Cluster:
    """The cluster for a test session, in a new folder; `close_cluster` removes it."""
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
    """The folder for tests on the file system that every node sees."""
    own = "/srv/hpcsci-tests" if os.geteuid() == 0 else "~/.hpcsci-tests"
    return Path(os.environ.get("HPCTEST_SHARED") or own).expanduser()


def ordinary_user() -> str:
    """The ordinary user that tests run as, if this process may become it."""
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
    """Make an environment with this project; its dependencies are kept for later sessions."""
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
    """An interpreter with the engine that every node sees; skips the test where there is none."""
    own = sys.executable if importlib.util.find_spec("vllm") else ""
    found = os.environ.get("HPCTEST_SERVING_PYTHON") or own
    if not found:
        pytest.skip("NOT TESTED: no engine here, and HPCTEST_SERVING_PYTHON names no interpreter")
    return found


def engine_image() -> str:
    """An image with the engine that every node sees; skips the test where there is none."""
    found = os.environ.get("HPCTEST_SERVING_IMAGE", "")
    if not found:
        pytest.skip("NOT TESTED: HPCTEST_SERVING_IMAGE names no image; tests/serving_image")
    return found
