"""What a suite brings up for itself: a clone, an environment, the engine, the cluster."""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .retrying import ServicesFailed
from .rooms import Room

PYTHON = "/usr/bin/python3"  # which ordinary users and nodes may run too
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The rest of the caller's variables could only make a run differ from the next one.
_KEPT = ("LANG", "TZ", "CUDA_VISIBLE_DEVICES", "HPCSCI_DEVCLUSTER_DIR")
_KEPT_PREFIXES = ("LC_", "PIP_", "UV_", "SSL_", "REQUESTS_", "CURL_")
# As `hpcsci doctor` names them, see papers/typesetting/engine.py; poppler reads what TeX made.
_TEX = (
    "texlive-latex-recommended",
    "texlive-fonts-recommended",
    "lmodern",
    "poppler-utils",
)
_INSTALL_S, _UP_S, _DOWN_S, _ENGINE_S, _IMAGE_S = 1800, 600, 300, 7200, 3600


def environment(home: Path, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables for a suite's commands: a home of its own, nothing of the caller's."""
    found = os.environ if given is None else given
    kept = {
        name: value
        for name, value in found.items()
        if name in _KEPT or name.startswith(_KEPT_PREFIXES) or name.lower().endswith("_proxy")
    }
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_PROGRESS_BAR": "off", "CI": "true"}
    return kept | quiet | {"PATH": _PATH, "HOME": str(home), "DEBIAN_FRONTEND": "noninteractive"}


def cluster_variables(folder: Path, user: str) -> dict[str, str]:
    """Return the variables by which a cluster has a folder and a user of its own."""
    return {"HPCSCI_DEVCLUSTER_DIR": str(folder), "HPCSCI_DEVCLUSTER_USER": user}


@dataclass
class Services:
    """A suite's own. `folder`: its place, named like it; `output`: for what these commands say."""

    folder: Path
    cache: Path
    output: Path
    needs: tuple[str, ...]
    room: Room
    python: Path = field(init=False)
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.python = self.clone / ".venv" / "bin" / "python"
        (self.folder / "home").mkdir(exist_ok=True)
        (self.folder / "shared").mkdir(exist_ok=True)
        self._kept_logs.mkdir(exist_ok=True)

    @property
    def clone(self) -> Path:
        """The clone of the repository."""
        return self.folder / "clone"

    @property
    def cluster(self) -> Path:
        """Where the suite's cluster lies; tests append to its name for others."""
        return self.folder / "cluster"

    @property
    def env(self) -> dict[str, str]:
        """The variables of every command of this suite."""
        # Folder and user tell clusters apart that are up at once: so do cgroups, by the folder.
        user = f"hpcsci-{self.folder.name}"
        own = {"HPCTEST_SHARED": str(self.folder / "shared"), "HPCTEST_USER": user}
        own["HPCTEST_LOGS"] = str(self._kept_logs)
        return self._machine | own | cluster_variables(self.cluster, user) | self.variables

    @property
    def _machine(self) -> dict[str, str]:
        """The variables of commands for what all suites share: the image."""
        caches = {"PIP_CACHE_DIR": str(self.cache), "UV_CACHE_DIR": str(self.cache / "uv")}
        return environment(self.folder / "home") | caches

    @property
    def log_folders(self) -> list[str]:
        """Where the cluster's daemons write what they log."""
        return [str(self.cluster / "log"), str(self._kept_logs)]

    @property
    def _kept_logs(self) -> Path:
        """Where tests that take a cluster of their own down leave what its daemons logged."""
        return self.folder / "kept-logs"

    def prepare(self, repository: Path) -> None:
        """Make clone and environment, install what is needed. Raises ServicesFailed."""
        clone(repository, self.clone, self.output)
        with (self.cache / "lock").open("w") as lock:  # apt is for one at a time
            fcntl.flock(lock, fcntl.LOCK_EX)
            have = [PYTHON, "-c", "import ensurepip, venv"]
            if self._run(have, 60) != 0:
                self._do(["apt-get", "update", "-q"], _INSTALL_S)
                self._do(["apt-get", "install", "-qy", "python3", "python3-venv"], _INSTALL_S)
            if "tex" in self.needs:
                self._do(["apt-get", "update", "-q"], _INSTALL_S)
                packages = ["apt-get", "install", "-qy", "--no-install-recommends", *_TEX]
                self._do(packages, _INSTALL_S)
            if {"cluster", "packages"} & set(self.needs):
                self._do([self._devcluster, "install"], _INSTALL_S)
            if "image" in self.needs:
                image = self._answer([self._devcluster, "image"], _IMAGE_S, self._machine)
                self.variables["HPCSCI_TEST_IMAGE"] = image.splitlines()[-1]
            if "browser" in self.needs:
                make = [self.clone / "tests" / "browser_environment", self.folder / "browser"]
                told = self._answer(make, _INSTALL_S, self._machine)
                self.variables |= dict(word.split("=", 1) for word in told.splitlines()[-1].split())
        if "engine" in self.needs:
            engine = self.folder / "engine"
            self._do([self.clone / "tests" / "serving_environment", engine], _ENGINE_S)
            self.python = engine / "bin" / "python"
            if "image" in self.needs:  # the engine's image is made of the trials'
                served = self.folder / "shared" / "serving.sif"
                base = self.variables["HPCSCI_TEST_IMAGE"]
                self._do([self.clone / "tests" / "serving_image", engine, base, served], _IMAGE_S)
                self.variables["HPCTEST_SERVING_IMAGE"] = str(served)
        else:
            self._do([PYTHON, "-m", "venv", self.clone / ".venv"], _INSTALL_S)
            extras = ".[dev,papers]" if "tex" in self.needs else ".[dev]"
            self._do([self.python, "-m", "pip", "install", "-q", extras], _INSTALL_S)

    def up(self) -> None:
        """Bring up what runs; a second time from scratch if need be. Raises ServicesFailed."""
        if "cluster" not in self.needs:
            return
        for last in (False, True):
            if self._run([self._devcluster, "up"], _UP_S) == 0:
                break
            self.down()
            if last:
                raise ServicesFailed(f"slurm/devcluster up failed twice: see {self.output}")
        told = self._answer([self._devcluster, "env"], 60, self.env)
        self.variables |= exported(told)

    def down(self) -> None:
        """Take the cluster down, also half a one."""
        if self.clone.exists() and ("cluster" in self.needs or "packages" in self.needs):
            self._run([self._devcluster, "down"], _DOWN_S)

    @property
    def _devcluster(self) -> Path:
        return self.clone / "slurm" / "devcluster"

    def _run(self, argv: Sequence[str | Path], limit_s: float) -> int:
        with self.output.open("a") as file:
            file.write(f"+ {shlex.join(map(str, argv))}\n")
        return self.room.run(argv, self.clone, self.env, self.output, limit_s)

    def _do(self, argv: Sequence[str | Path], limit_s: float) -> None:
        code = self._run(argv, limit_s)
        if code != 0:
            words = shlex.join(map(str, argv))
            raise ServicesFailed(f"`{words}` ended {code}: see {self.output}")

    def _answer(self, argv: Sequence[str | Path], limit_s: float, env: Mapping[str, str]) -> str:
        said = self.folder / "answer"
        said.unlink(missing_ok=True)
        code = self.room.run(argv, self.clone, env, said, limit_s)
        text = said.read_text(errors="replace")
        with self.output.open("a") as file:
            file.write(f"+ {shlex.join(map(str, argv))}\n{text}")
        if code != 0 or not text.strip():
            raise ServicesFailed(
                f"`{argv[-1]}` of slurm/devcluster ended {code}: see {self.output}"
            )
        return text


def clone(repository: Path, target: Path, output: Path) -> None:
    """Clone what is committed, readable to all. Raises ServicesFailed."""
    argv = ["git", "clone", "--quiet", "--no-hardlinks", str(repository), str(target)]
    with output.open("ab") as file:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False, timeout=600
        )
    if done.returncode != 0:
        raise ServicesFailed(f"`{shlex.join(argv)}` ended {done.returncode}: see {output}")


def exported(told: str) -> dict[str, str]:
    """Return the variables of a shell's `export NAME=VALUE` lines, those that need no shell."""
    found = {}
    for line in told.splitlines():
        if line.startswith("export ") and "$" not in line:
            name, _, value = line.removeprefix("export ").partition("=")
            found[name.strip()] = "".join(shlex.split(value))
    return found
