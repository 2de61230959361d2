"""What waits beside a CPU engine's steps leaves the cores to them; no time is measured here."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hpcscientist.config.settings import ServingSettings
from hpcscientist.models.serving.fitting.drafting import PlaneAllocation, draft
from hpcscientist.models.serving.fitting.layout import Layout, Machine
from hpcscientist.models.serving.nodes import caches, spinning
from hpcscientist.records.site import Site

# What vLLM does in each of its processes, then a condition as its queues make one.
ASK = """
from vllm.plugins import load_general_plugins
load_general_plugins()
load_general_plugins()
import zmq
from vllm.distributed.device_communicators.shm_broadcast import SpinCondition
context = zmq.Context()
for is_reader, kind in ((False, "writer"), (True, "reader")):
    made = SpinCondition(is_reader=is_reader, context=context, notify_address="inproc://told")
    print(kind, made.busy_loop_s)
"""


# A message whose wake-up is lost, sent once its reader sleeps; vLLM's own second look is put off.
LOSE = """
from vllm.plugins import load_general_plugins
load_general_plugins()
import threading
from vllm.distributed.device_communicators import shm_broadcast
shm_broadcast.SHM_READER_RECHECK_INTERVAL_MS = 10**8
shm_broadcast.SpinCondition.notify = lambda self: None
writer = shm_broadcast.MessageQueue(n_reader=1, n_local_reader=1)
asleep, found = threading.Event(), []
def read():
    reader = shm_broadcast.MessageQueue.create_from_handle(writer.export_handle(), rank=0)
    reader.wait_until_ready()
    poller, poll = reader._spin_condition.poller, reader._spin_condition.poller.poll
    class Noted:
        def poll(self, timeout=None):
            asleep.set()
            return poll(timeout)
    reader._spin_condition.poller = Noted()
    found.append(reader.dequeue(indefinite=True))
thread = threading.Thread(target=read, daemon=True)
thread.start()
writer.wait_until_ready()
asleep.wait()
writer.enqueue("a step")
thread.join(60)
print(found)
"""


@pytest.mark.parametrize(("gpus", "told"), [(0, True), (2, False)])
def test_engines_on_gpus_go_on_looking(tmp_path: Path, gpus: int, *, told: bool) -> None:
    layout = Layout(
        replicas=1,
        tensor_parallel=1,
        pipeline_parallel=1,
        context=2048,
        gpus_per_replica=gpus,
        dtype="auto",
        kv_tokens=4096,
    )
    order = draft(
        *(tmp_path, "owner", {tmp_path / "m": layout}),
        PlaneAllocation(nodes=("n1",), address="127.0.0.1", number=1),
        Machine(nodes=1, gpus=gpus, gpu_memory_mb=80_000, cpus=4, memory_mb=0),
        *(ServingSettings(), Site()),
    )
    assert (spinning.VARIABLE in order.models[0].variables) == told


class Waiting:
    """What vLLM's processes wait with."""

    def __init__(self, name: str, busy_loop_s: float = 1) -> None:
        self.name, self.busy_loop_s = name, busy_loop_s
        self.waited: list[float | None] = []

    def wait(self, timeout_ms: float | None = None) -> None:
        self.waited.append(timeout_ms)


class Other:
    """The same in a vLLM that has no such parameter."""

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module in which vLLM has it."""
    for name in ("__init__", "wait"):  # whatever becomes of them is taken back
        monkeypatch.setattr(Waiting, name, getattr(Waiting, name))
    place = "vllm.distributed.device_communicators"
    module = ModuleType(f"{place}.shm_broadcast")
    around = ModuleType(place)
    around.shm_broadcast = module  # type: ignore[attr-defined]
    for name in ("vllm", "vllm.distributed"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, place, around)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_a_wait_is_shortened_where_that_is_asked_for(
    queues: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "SpinCondition", Waiting, raising=False)
    monkeypatch.delenv(spinning.VARIABLE, raising=False)
    spinning.register()
    assert Waiting("a").busy_loop_s == 1
    monkeypatch.setenv(spinning.VARIABLE, "0.002")
    spinning.register()
    spinning.register()
    made = Waiting("a")
    assert (made.name, made.busy_loop_s) == ("a", 0.002)


@pytest.mark.parametrize("variable", [spinning.VARIABLE, caches.FOLDER])
def test_whoever_sleeps_looks_again_soon(
    queues: ModuleType, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setattr(queues, "SpinCondition", Waiting, raising=False)
    for name in (spinning.VARIABLE, caches.FOLDER):
        monkeypatch.delenv(name, raising=False)
    spinning.register()
    made = Waiting("another's")
    made.wait(timeout_ms=5000)
    assert made.waited == [5000]
    monkeypatch.setenv(variable, "1")
    spinning.register()
    spinning.register()
    made = Waiting("ours")
    for given in (None, 5000, 3):
        made.wait(timeout_ms=given)
    assert made.waited == [spinning.LOOK_AGAIN_MS, spinning.LOOK_AGAIN_MS, 3]


def test_a_vllm_without_such_a_wait_is_left_as_it_is(
    queues: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(spinning.VARIABLE, spinning.SHORT_S)
    spinning.register()
    before = Other.__init__
    monkeypatch.setattr(queues, "SpinCondition", Other, raising=False)
    spinning.register()
    assert Other.__init__ is before
    monkeypatch.setitem(sys.modules, "vllm.distributed.device_communicators", None)
    spinning.register()
    assert Other("a").name == "a"


@pytest.mark.parametrize("given", ["", spinning.SHORT_S])
@pytest.mark.serving
def test_vllm_loads_it_and_waits_as_it_is_told(given: str) -> None:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("NOT TESTED: vLLM is not installed; tests/serving_environment")
    environment = os.environ | {spinning.VARIABLE: given, "VLLM_LOGGING_LEVEL": "ERROR"}
    done = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True
    )
    kind, seconds = done.stdout.splitlines()[-1].split()
    assert (kind, float(seconds)) == ("reader", float(given or 1))


@pytest.mark.parametrize("variable", [spinning.VARIABLE, caches.FOLDER])
@pytest.mark.serving
def test_a_wake_up_that_is_lost_stalls_no_engine(tmp_path: Path, variable: str) -> None:
    """Without the second look of ours this reader sleeps for a day."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("NOT TESTED: vLLM is not installed; tests/serving_environment")
    given = {spinning.VARIABLE: spinning.SHORT_S, caches.FOLDER: str(tmp_path)}[variable]
    environment = os.environ | {variable: given, "VLLM_LOGGING_LEVEL": "ERROR"}
    done = subprocess.run(
        [sys.executable, "-c", LOSE], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "['a step']", done.stderr
