"""A development cluster of a test's own, beside whatever other one is up, and what it leaves."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from faults_kit import until
from slurm_kit import DEVCLUSTER, DEVCLUSTER_COMMAND, ROOT

sys.path.insert(0, str(ROOT / "slurm"))

from devlib.base import PATH
from devlib.places import Cluster, Places
from devlib.processes import pid_of, start_time

FOLDER = Path(f"{DEVCLUSTER}-test")
USER = os.environ.get("HPCTEST_USER") or "hpcsci-tester"
UP_S = 600
# What a job's accounting says when it is over.
ENDED = "COMPLETED|FAILED|CANCELLED|TIMEOUT|OUT_OF_MEMORY|NODE_FAIL|PREEMPTED"


@dataclass
class Own:
    """A cluster in a folder of its own, with a user of its own."""

    folder: Path = FOLDER
    user: str = USER
    seen: set[tuple[int, str]] = field(default_factory=set)

    @property
    def places(self) -> Places:
        return Places(self.folder)

    @property
    def variables(self) -> dict[str, str]:
        return {"HPCSCI_DEVCLUSTER_DIR": str(self.folder), "HPCSCI_DEVCLUSTER_USER": self.user}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the cluster's command; output and errors are one."""
        return subprocess.Popen(
            [DEVCLUSTER_COMMAND, *arguments],
            env=os.environ | self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def held_up(self, name: str) -> subprocess.Popen[str]:
        """Start `up`, and stop it by SIGSTOP where it has just started a process.

        It is not complete then, and cannot become so. Four nodes, for after the
        last one's slurmd there may be nothing left to do; where it was faster than
        this test, once more.
        """
        for _ in range(10):
            rising = self.start("up", "--nodes", "4")
            while pid_of(self.places, name) is None and rising.poll() is None:
                time.sleep(0.005)
            rising.send_signal(signal.SIGSTOP)
            if rising.poll() is None and not (self.places.run / "ready").exists():
                return rising
            rising.send_signal(signal.SIGCONT)
            rising.communicate(timeout=UP_S)
            self.down()
        raise AssertionError(f"`up` was always complete before it was seen to start {name}")

    def tell(self, *arguments: str) -> tuple[int, str]:
        """Run the cluster's command to its end; return its exit status and what it said."""
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=UP_S)
        return process.returncode, said

    def do(self, *arguments: str) -> str:
        """Run the cluster's command, which must succeed."""
        code, said = self.tell(*arguments)
        assert code == 0, said
        return said

    def up(self, *arguments: str) -> str:
        """Bring it up, and note its processes."""
        said = self.do("up", *arguments)
        self.note()
        return said

    def note(self) -> None:
        """Remember the processes that it has: those in namespaces of its."""
        ours = {_space(pid) for pid in map(self._pid, self.places.run.glob("*.pid")) if pid}
        for pid in _pids():
            if _space(pid) in ours - {None} and (started := start_time(pid)):
                self.seen.add((pid, started))

    def _pid(self, record: Path) -> int | None:
        return pid_of(self.places, record.stem)

    def down(self) -> None:
        self.do("down")

    def pid(self, name: str) -> int:
        """The process of a daemon, a node, or the supervisor."""
        return until(f"{name} runs", lambda: pid_of(self.places, name))

    def kill(self, name: str) -> None:
        """SIGKILL one of its processes."""
        os.kill(self.pid(name), 9)

    def run(
        self, *command: str | Path, env: Mapping[str, str] | None = None, user: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as its user, on this machine as on a login node."""
        given = {"PATH": PATH, "SLURM_CONF": str(self.places.slurm_conf)} | dict(env or {})
        line = ["env", "-i", *(f"{k}={v}" for k, v in given.items()), *map(str, command)]
        return subprocess.run(
            ["runuser", "-u", user or self.user, "--", *line],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def left(self) -> list[str]:
        """What there is of it on this machine: nothing after `down`."""
        return [
            *self._processes(),
            *_lines("/proc/self/mountinfo", str(self.folder)),
            *_lines("/proc/net/unix", str(self.folder)),
            *map(str, Path("/sys/fs/cgroup").glob(f"*/{self.places.cgroup}")),
            *(entry.pw_name for entry in pwd.getpwall() if entry.pw_name == self.user),
            *(str(path) for path in [self.folder] if path.exists()),
        ]

    def _processes(self) -> list[str]:
        named = [pid for pid in _pids() if pid != os.getpid() and _names(pid, self.folder)]
        noted = [pid for pid, started in self.seen if start_time(pid) == started]
        return [f"process {pid}" for pid in {*named, *noted} if start_time(pid)]


@dataclass
class Job:
    """A job of the cluster's user, in a folder that it and its user can write."""

    own: Own
    name: str
    folder: Path
    job_id: str

    @classmethod
    def submit(cls, own: Own, name: str, script: str, *options: str) -> Job:
        folder = Path(pwd.getpwnam(own.user).pw_dir) / name
        folder.mkdir(mode=0o755)
        (folder / "job.sh").write_text(f"#!/bin/bash\n{script}\n")
        uid = pwd.getpwnam(own.user).pw_uid
        for path in (folder, folder / "job.sh"):
            os.chown(path, uid, uid)
        where = (f"--job-name={name}", f"--chdir={folder}", f"--output={folder}/out")
        done = own.run("sbatch", "--parsable", *where, "--mem=300", *options, folder / "job.sh")
        assert done.returncode == 0, done.stderr
        return cls(own, name, folder, done.stdout.strip())

    def show(self) -> dict[str, str]:
        """Its fields in scontrol's words; empty while the controller cannot say."""
        done = self.own.run("scontrol", "-o", "show", "job", self.job_id)
        found = dict(re.findall(r"(\S+?)=(\S*)", done.stdout)) if done.returncode == 0 else {}
        assert found.get("JobName", self.name) == self.name, found
        return found

    def is_queued(self) -> bool:
        done = self.own.run("squeue", "--noheader", f"--jobs={self.job_id}")
        # An answer that does not come says nothing.
        return done.returncode != 0 or bool(done.stdout.strip())

    def await_state(self, state: str) -> None:
        """Wait for a state; an end is one only once the queue has let the job go."""

        def there() -> bool:
            now = self.show().get("JobState", "")
            if not re.fullmatch(ENDED, now):
                return now == state
            if self.is_queued():
                return False
            assert now == state, (now, self.said())
            return True

        until(f"{self.name} is {state}", there)

    def await_lines(self, name: str, count: int = 1) -> list[str]:
        """Wait for lines in a file of its folder."""
        return until(
            f"{count} lines of {name}",
            lambda: lines if len(lines := self.lines(name)) >= count else None,
        )

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def node(self) -> str:
        return until("it has a node", lambda: self.show().get("BatchHost"))

    def said(self) -> str:
        return "\n".join(self.lines("out"))


@contextlib.contextmanager
def own_cluster(own: Own) -> Iterator[Own]:
    """A cluster that is down before and afterwards; skips where none can be made."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can make a development cluster")
    own.down()
    try:
        yield own
    finally:
        keep_logs(own)
        own.down()


def keep_logs(own: Own) -> None:
    """Copy what its daemons logged to a new folder below HPCTEST_LOGS, for `down` removes it."""
    kept = os.environ.get("HPCTEST_LOGS")
    if kept and own.places.log.exists():
        shutil.copytree(own.places.log, Path(tempfile.mkdtemp(dir=kept)) / "log")


def await_end(pid: int) -> None:
    """Wait until a process has ended."""
    until(f"{pid} ends", lambda: start_time(pid) is None)


def recorded(own: Own) -> Cluster:
    """What `up` wrote down."""
    return Cluster.load(own.places)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _space(pid: int) -> str | None:
    """A process's namespace of process ids."""
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    return None


def _names(pid: int, folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return bytes(folder) in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _lines(path: str, word: str) -> list[str]:
    return [line for line in Path(path).read_text().splitlines() if word in line]
