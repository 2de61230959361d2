"""What waits beside a CPU engine's steps leaves the cores to them; no time is measured here."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpcscientist.config.settings import ServingSettings
from hpcscientist.models.serving.fitting.drafting import Allocation, draft
from hpcscientist.models.serving.fitting.layout import Layout, Machine
from hpcscientist.models.serving.nodes import spinning
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
        Allocation(nodes=("n1",), address="127.0.0.1", number=1),
        Machine(nodes=1, gpus=gpus, gpu_memory_mb=80_000, cpus=4, memory_mb=0),
        *(ServingSettings(), Site()),
    )
    assert (spinning.VARIABLE in order.models[0].variables) == told


def test_nothing_is_done_where_there_is_no_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setenv(spinning.VARIABLE, spinning.SHORT_S)
    spinning.register()


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
