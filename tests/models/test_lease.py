"""Whoever ordered a plane is killed outright: its nodes notice, and end by themselves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import psutil
import pytest

import hpcscientist
from hpcscientist.models.serving.checking.interpreter import EngineImage
from hpcscientist.models.serving.lease import Beat, Lease
from hpcscientist.models.serving.nodes import leftovers
from hpcscientist.models.serving.order import Endpoint, Order, ServingPaths, port_block

LIMIT_S = 120.0
# A node's parent lives on, as srun does, and as what starts a container does.
DRIVER = """\
import subprocess, sys, time
from pathlib import Path
from hpcscientist.models.serving import lease
lease.BEAT_S = 0.2
lease.Beat(Path(sys.argv[1])).start()
command = [*sys.argv[3:], "-m", "hpcscientist.models.serving.nodes.node", sys.argv[2], "worker"]
subprocess.Popen(command, start_new_session=True)
print("up", flush=True)
time.sleep(600)
"""


class Clock:
    """Seconds as a test wants them."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_number_that_goes_on_keeps_the_lease(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "lease"
    lease = Lease(path, 60, clock)
    for number in range(100):
        path.write_text(f"{number}\n")
        clock.now += 4
        assert not lease.is_over()


@pytest.mark.parametrize("text", ["7\n", None])
def test_silence_ends_it(tmp_path: Path, text: str | None) -> None:
    clock, path = Clock(), tmp_path / "lease"
    if text is not None:
        path.write_text(text)
    lease = Lease(path, 60, clock)
    looks = 0
    while not lease.is_over():
        clock.now += 4
        looks += 1
    assert 60 < clock.now <= 72
    assert looks > 10


def test_a_look_that_took_long_is_no_long_silence(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "lease"
    path.write_text("1\n")
    lease = Lease(path, 60, clock)
    assert not lease.is_over()
    clock.now += 3600  # the file server stood still, for whoever writes too
    assert not lease.is_over()
    path.write_text("2\n")
    assert not lease.is_over()


def test_beat_goes_on_and_clears_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcscientist.models.serving.lease.BEAT_S", 0.01)
    path = tmp_path / "lease"
    beat = Beat(path)
    beat.start()
    first, until = path.read_bytes(), time.monotonic() + LIMIT_S
    while path.read_bytes() == first:
        assert time.monotonic() < until
    beat.stop()
    assert list(tmp_path.iterdir()) == []


def test_node_of_a_killed_driver_ends_and_leaves_nothing(tmp_path: Path) -> None:
    assert left_by_node(tmp_path, ["/bin/sh", "-c", '"$@" & wait', "sh", sys.executable]) == []


@pytest.mark.apptainer
def test_container_of_a_killed_driver_ends_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With this environment's libraries, in an image of the same Python."""
    if shutil.which("apptainer") is None or "HPCSCI_TEST_IMAGE" not in os.environ:
        pytest.skip("NOT TESTED: containers, for lack of apptainer or of HPCSCI_TEST_IMAGE")
    image = EngineImage(os.environ["HPCSCI_TEST_IMAGE"])
    ask = "import sys; print(sys.version_info[:2])"
    command = [*image.prefix(), "python3", "-c", ask]
    own = subprocess.run(command, capture_output=True, text=True, check=True)
    if own.stdout.strip() != str(sys.version_info[:2]):
        pytest.skip("NOT TESTED: HPCSCI_TEST_IMAGE has another Python than this one")
    places = [str(Path(hpcscientist.__file__).parents[1]), sysconfig.get_path("platlib")]
    monkeypatch.setenv("APPTAINERENV_PYTHONPATH", ":".join(places))
    monkeypatch.setenv("APPTAINER_BIND", ",".join(places))
    assert left_by_node(tmp_path, [*image.prefix([tmp_path]), "python3"]) == []
    until = time.monotonic() + LIMIT_S  # Apptainer's own processes end after what they ran
    while [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(p.info["cmdline"])]:
        assert time.monotonic() < until
        time.sleep(0.05)


def left_by_node(tmp_path: Path, python: list[str]) -> list[Path]:
    """Kill the driver of a node that outlives its parent, see it end, and what it leaves."""
    # Its own: who shares /tmp may not see this node's process, and then sweeps its folder. And
    # short: it stands in the paths of sockets.
    scratch = tempfile.mkdtemp(prefix="n", dir="/tmp")
    try:
        return left_in(Path(scratch), tmp_path, python)
    finally:
        shutil.rmtree(scratch)


def left_in(scratch: Path, tmp_path: Path, python: list[str]) -> list[Path]:
    paths = ServingPaths(tmp_path / "plane")
    paths.root.mkdir()
    order = an_order(paths, str(scratch))
    paths.order.write_text(order.model_dump_json())
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, paths.lease(order.nonce), paths.order, *python],
        stdout=subprocess.PIPE,
    )
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"up\n"
        node = await_node(str(paths.order))
        until = time.monotonic() + LIMIT_S
        while not list(scratch.iterdir()):
            assert node.is_running()
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        assert driver.stdout is not None
        driver.stdout.close()
    node.wait(LIMIT_S)
    return list(scratch.iterdir())


def test_what_was_published_is_withdrawn_by_its_own_start_alone(tmp_path: Path) -> None:
    paths = ServingPaths(tmp_path)
    order = an_order(paths)
    for nonce, there in (("another", True), (order.nonce, False)):
        endpoint = Endpoint(
            nonce=nonce,
            url="http://127.0.0.1:1/v1",
            models=("m",),
            nodes=order.nodes,
            head="n1",
            replicas=(),
            contexts={},
            started=0.0,
        )
        paths.endpoint.write_text(endpoint.model_dump_json())
        leftovers.withdraw(order)
        assert paths.endpoint.exists() is there


def an_order(paths: ServingPaths, scratch: str = "/tmp") -> Order:
    """Of a node whose head never answers."""
    return Order(
        nonce="n-0",
        owner="o",
        root=str(paths.root),
        nodes=("n1", "n2"),
        head="127.0.0.1",
        ports=port_block(os.getpid()),
        models=(),
        cpus=1,
        gpus=0,
        object_store=80,
        scratch=scratch,
        ready_s=600,
        lease_s=6,  # more than one look counts: a machine that stood still is no silence
    )


def await_node(order: str) -> psutil.Process:
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        for one in psutil.process_iter(["cmdline"]):
            words = one.info["cmdline"] or []
            if order in words and Path(words[0]).name.startswith("python") and "-c" not in words:
                return one
        time.sleep(0.05)
    raise AssertionError("no node came up")
