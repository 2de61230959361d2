"""`hpcsci serve` on two nodes of the development cluster, and what root sees of it."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from faults_kit import Faults, until
from slurm_kit import Cluster

from hpcscientist.models.serving.order import Order, ServingPaths

HERE = Path(__file__).parent
READY_S, LIMIT_S = 1200.0, 600
LISTENS = "0A"  # a socket's state in /proc/net/tcp
# Where processes leave files that are no one's alone.
PUBLIC = ("tmp", "var/tmp", "dev/shm")
SITE = """\
[controller]
cpus = 2
memory_mb = 11000
minutes = 60
[serving]
python = {python}
"""
SETTINGS = """\
[serving]
context = 32768
kv_cache_gb = 0.5
eager = true
[serving.engine]
max_num_seqs = 4
"""


@dataclass(frozen=True, slots=True)
class Listener:
    """A TCP port that one of the user's processes listens on. `address` is numeric."""

    node: str
    address: str
    port: int
    name: str

    @property
    def is_local(self) -> bool:
        return ipaddress.ip_address(self.address).is_loopback


@dataclass
class Served:
    """One plane, and the `hpcsci serve` that follows its job."""

    cluster: Cluster
    faults: Faults
    engine: str
    folder: Path
    process: subprocess.Popen[bytes] = field(init=False)
    before: dict[str, set[Path]] = field(init=False)

    def start(self, model: Path) -> None:
        self.before = {node: set(self.files_of_user(node)) for node in self.faults.nodes()}
        (self.folder / "site.toml").write_text(SITE.format(python=json.dumps(self.engine)))
        (self.folder / "hpcsci.toml").write_text(SETTINGS)
        for script in HERE.glob("served_*.py"):
            shutil.copy(script, self.folder)
        self.cluster.own(self.folder)
        asked = ("serve", "--model", f"vllm:{model}", "--nodes", "2", "--dir", "plane")
        command = self.cluster.command(*self.cluster.hpcsci_command, *asked, "--site", "site.toml")
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=out, stderr=err)

    def await_answers(self) -> None:
        def answers() -> bool:
            assert self.process.poll() is None, self.said()
            return "use it:" in (self.folder / "out").read_text()

        until("models answer", answers, READY_S)

    def end(self) -> None:
        """Leave nothing of it in the queue, whatever a test found."""
        self.cluster.run("scancel", "--me", cwd=self.folder)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60)
        self.process.kill()
        self.process.wait()

    def sweep(self) -> None:
        """Remove what it left on a node that was killed.

        The next plane there would, but these nodes number their processes anew when they start.
        """
        for node in self.faults.nodes():
            for path in self.leftovers(node):
                place = self.inside(node, path)
                shutil.rmtree(place) if place.is_dir() else place.unlink()

    def said(self) -> str:
        logs = sorted((self.folder / "plane" / "logs").glob("*.log"))
        return "\n".join(f"{p}: {p.read_text()[-4000:]}" for p in (self.folder / "err", *logs))

    @property
    def paths(self) -> ServingPaths:
        return ServingPaths(self.folder / "plane")

    @property
    def order(self) -> Order:
        return Order.model_validate_json(self.paths.order.read_bytes())

    @property
    def job_id(self) -> str:
        (job,) = self.cluster.queue("serve")
        return job.job_id

    def address(self, node: str) -> str:
        shown = self.cluster.run("scontrol", "-o", "show", "node", node, cwd=self.folder).stdout
        (found,) = re.findall(r"NodeAddr=(\S+)", shown)
        return str(found)

    def step(self, node: str, *command: str | Path) -> list[str]:
        """The command line that runs something on a node as the user, within the job."""
        return [
            *("srun", f"--jobid={self.job_id}", "--overlap", "--nodes=1", "--ntasks=1"),
            *(f"--nodelist={node}", "--mem=0", "--input=none", "--quiet", *map(str, command)),
        ]

    def ask(self, node: str, *arguments: str | Path) -> dict[str, Any]:
        """Run `served_asking.py` on a node and return what it prints."""
        done = self.cluster.run(
            *self.step(node, *self.asking(*arguments)), cwd=self.folder, timeout=LIMIT_S
        )
        assert done.returncode == 0, done.stderr + self.said()
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def asking(self, what: str, *more: str | Path) -> list[str | Path]:
        script = self.folder / "served_asking.py"
        return [self.cluster.python, "-P", script, what, self.paths.root, *more]

    def as_other(self, node: str, user: str, *command: str | Path) -> list[str]:
        """The command line that runs something on a node as any user, outside of the job."""
        within = [*self.faults.enter(node), "runuser", "-u", user, "--", "env", "-i"]
        return [*within, "PATH=/usr/bin:/bin", "HOME=/nonexistent", *map(str, command)]

    def family(self, node: str) -> list[psutil.Process]:
        """All of the user's processes on a node."""
        space, found = self._space(node), []
        for process in psutil.process_iter(["uids"]):
            with contextlib.suppress(psutil.Error, OSError):
                mine = process.info["uids"] and process.info["uids"].real == self.uid
                if mine and Path(f"/proc/{process.pid}/ns/net").readlink() == space:
                    found.append(process)
        return found

    def engines(self, node: str) -> list[psutil.Process]:
        """The engines' processes on a node."""
        return [one for one in self.family(node) if _title(one).startswith("VLLM::EngineCore")]

    def listeners(self, node: str) -> list[Listener]:
        """Every port that a process of the user's listens on, as the kernel lists them."""
        names: dict[str, str] = {}
        for process in self.family(node):
            with contextlib.suppress(psutil.Error, OSError):
                for entry in Path(f"/proc/{process.pid}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        names[str(entry.readlink())] = _title(process)
        found = set()
        for table in ("tcp", "tcp6"):
            for line in self._read(node, f"net/{table}").splitlines()[1:]:
                row = line.split()
                if row[3] == LISTENS and int(row[7]) == self.uid:
                    address, port = _place(row[1])
                    found.add(Listener(node, address, port, names.get(f"socket:[{row[9]}]", "?")))
        return sorted(found, key=lambda one: (one.port, one.address))

    def leftovers(self, node: str) -> list[Path]:
        """What the plane has put into a node's public folders, by the paths there."""
        return [path for path in self.files_of_user(node) if path not in self.before[node]]

    def files_of_user(self, node: str) -> list[Path]:
        """The user's files in a node's public folders, by their paths there."""
        root, found = Path(f"/proc/{self.faults.first_process(node)}/root"), []
        for public in PUBLIC:
            for path in (root / public).iterdir():
                with contextlib.suppress(FileNotFoundError):
                    if path.lstat().st_uid == self.uid:
                        found.append(Path("/") / path.relative_to(root))
        return found

    def inside(self, node: str, path: Path) -> Path:
        """A node's path as this machine sees it."""
        return Path(f"/proc/{self.faults.first_process(node)}/root") / path.relative_to("/")

    @property
    def uid(self) -> int:
        return pwd.getpwnam(self.cluster.user).pw_uid

    def _space(self, node: str) -> Path:
        return Path(f"/proc/{self.faults.first_process(node)}/ns/net").readlink()

    def _read(self, node: str, name: str) -> str:
        return Path(f"/proc/{self.faults.first_process(node)}/{name}").read_text()


def below(folder: Path) -> Iterator[Path]:
    """Every file below a folder, or the file itself."""
    yield from (path for path in (folder, *folder.rglob("*")) if path.is_file())


def _title(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())[:60] or process.name()
    return "?"


def _place(text: str) -> tuple[str, int]:
    """An address and a port, as /proc/net/tcp writes them."""
    raw, _, port = text.partition(":")
    words = [bytes.fromhex(raw[i : i + 8])[::-1] for i in range(0, len(raw), 8)]
    address = ipaddress.ip_address(b"".join(words))
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address), int(port, 16)
