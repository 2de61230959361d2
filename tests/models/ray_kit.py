"""A real Ray cluster for tests: a head, and a second node where a test wants one."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from hpcscientist.models.fanout.on_ray import RayCluster

_LIMIT_S = 120
_HERE = Path(__file__).parent


def skip_without_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: use an environment with torch, vLLM and Ray")


@dataclass(frozen=True, slots=True)
class RayNode:
    """One node of a cluster, in a process group of its own."""

    process: subprocess.Popen[bytes]
    cluster: RayCluster
    folder: Path

    def processes(self, part: str) -> list[psutil.Process]:
        """The node's processes whose command line holds `part`."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        return [one for one in found if part in " ".join(command(one))]

    def hands(self) -> list[psutil.Process]:
        return self.processes("ray::Hand")

    def kill(self) -> None:
        """End all of it as a lost machine would: without a word."""
        with contextlib.suppress(psutil.NoSuchProcess):
            all_of_it = psutil.Process(self.process.pid).children(recursive=True)
            self.process.kill()
            for one in all_of_it:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            psutil.wait_procs(all_of_it, timeout=_LIMIT_S)
        self.process.wait()


@contextlib.contextmanager
def ray_node() -> Iterator[RayNode]:
    """Start a cluster with two CPUs and a token; nothing of it is left afterwards."""
    # Short: the names of Ray's sockets have an upper bound.
    folder = Path(tempfile.mkdtemp(prefix="r"))
    token = folder / "token"
    token.touch(0o600)
    token.write_text(secrets.token_hex(32))
    address = f"127.0.0.1:{_free_port()}"
    try:
        with _started(
            RayCluster(address=address, token_file=str(token)),
            folder,
            *("--head", "--node-ip-address", "127.0.0.1", "--port", address.rpartition(":")[2]),
            *("--include-dashboard", "false", "--temp-dir", str(folder / "s")),
        ) as node:
            yield node
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def joined(head: RayNode) -> Iterator[RayNode]:
    """Have a second node, with two CPUs of its own, join a head's cluster on this machine."""
    address = head.cluster.address
    own = ("--address", address, "--node-ip-address", "127.0.0.1")
    with _started(head.cluster, head.folder, *own) as node:
        yield node


@contextlib.contextmanager
def _started(cluster: RayCluster, folder: Path, *arguments: str) -> Iterator[RayNode]:
    start = (
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus", "2"),
        *("--num-gpus", "0", "--object-store-memory", str(80 * 2**20), "--disable-usage-stats"),
        *arguments,
    )
    log = folder / f"log-{secrets.token_hex(4)}"
    with log.open("wb") as written:
        process = subprocess.Popen(
            start,
            stdout=written,
            stderr=written,
            env=_environment(Path(cluster.token_file)),
            start_new_session=True,
        )
    node = RayNode(process, cluster, folder)
    try:
        _wait_until_started(process, log)
        yield node
    finally:
        node.kill()


def kill(process: psutil.Process) -> None:
    process.send_signal(signal.SIGKILL)


def _environment(token: Path) -> dict[str, str]:
    given = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    return given | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": str(_HERE),
    }


def _wait_until_started(process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _LIMIT_S
    while "Ray runtime started" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def command(process: psutil.Process) -> list[str]:
    """Return the command line of a process; none when it is gone, or dead and not collected."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
