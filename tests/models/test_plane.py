"""A plane as its driver sees it, with nodes that are plain processes of this machine."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hpcscientist.errors import Interrupted, ServingError
from hpcscientist.models.serving.order import Endpoint, Order, ServingPaths, port_block
from hpcscientist.models.serving.plane import Launcher, Plane, read_endpoint

# What a node's process does, as far as its driver sees it: it ends with its parent, and when asked.
NODE = """\
import ctypes, json, pathlib, signal, sys, time
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
folder = pathlib.Path(sys.argv[1])
order = json.loads((folder / "order.json").read_text())
(folder / "state").write_text("reads weights")
print("up", flush=True)
while not (folder / "answer").exists():
    time.sleep(0.02)
    if (folder / f"stop-{order['nonce']}").exists():
        sys.exit()
if (folder / "answer").read_text() == "fail":
    (folder / "state").write_text("failed: no memory")
    sys.exit(1)
there = dict(nonce=order["nonce"], url="http://127.0.0.1:1/v1", replicas=[], models=["m"],
             nodes=["n1"], head="n1", contexts={}, started=0.0)
(folder / "new").write_text(json.dumps(there))
(folder / "new").rename(folder / "endpoint.json")
while not (folder / f"stop-{order['nonce']}").exists():
    time.sleep(0.02)
"""


@dataclass
class Here:
    """Starts such a process for a node."""

    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    up: threading.Event = field(default_factory=threading.Event)

    def start(self, node: str, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", NODE, str(self.folder)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        self.started.append(process)
        self.up.set()
        return process


@contextmanager
def plane_in(folder: Path, told: list[str]) -> Iterator[tuple[Plane, Here]]:
    order = Order(
        nonce="n",
        owner="o",
        root=str(folder),
        nodes=("n1",),
        head="127.0.0.1",
        ports=port_block(1),
        models=(),
        cpus=1,
        gpus=0,
        object_store=1,
        scratch="",
        ready_s=600.0,
    )
    steps = Here(folder)
    plane = Plane(order, Launcher(steps), 1, told.append)
    try:
        yield plane, steps
    finally:
        plane.close()
        for process in steps.started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def test_a_plane_that_starts_beside_its_driver_stays_until_it_is_closed(tmp_path: Path) -> None:
    """Linux tells a process of the end of the thread that started it, not of its parent's."""
    told: list[str] = []
    with plane_in(tmp_path, told) as (plane, steps):
        answers: Future[Endpoint] = plane.begin()
        steps.up.wait()
        assert not answers.done()
        (tmp_path / "answer").write_text("yes")
        assert answers.result().models == ("m",)
        # The one that started the node; it ends when the plane is closed.
        assert "model plane" in {thread.name for thread in threading.enumerate()}
        assert plane.lost == ""
        assert steps.started[0].poll() is None
        plane.close()
        assert steps.started[0].poll() == 0
        assert read_endpoint(ServingPaths(tmp_path)) is None
    assert any("reads weights" in line for line in told)
    assert told[-1] == "models answer: m"


def test_a_plane_is_closed_while_it_starts(tmp_path: Path) -> None:
    with plane_in(tmp_path, []) as (plane, steps):
        answers = plane.begin()
        steps.up.wait()
        plane.close()
        with pytest.raises(Interrupted):
            answers.result()
        assert steps.started[0].poll() is not None


def test_why_a_plane_did_not_start_comes_with_its_answer(tmp_path: Path) -> None:
    with plane_in(tmp_path, []) as (plane, steps):
        (tmp_path / "answer").write_text("fail")
        with pytest.raises(ServingError, match="no memory"):
            plane.begin().result()
        assert steps.started[0].poll() == 1


def test_a_node_that_is_lost_later_is_seen(tmp_path: Path) -> None:
    with plane_in(tmp_path, []) as (plane, steps):
        (tmp_path / "answer").write_text("yes")
        plane.begin().result()
        steps.started[0].kill()
        while not plane.lost:
            pass
        assert "n1" in plane.lost
