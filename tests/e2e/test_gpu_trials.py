"""Trials with GPUs on this machine: each has its own, sees no other, and is told if memory ends.

Run it wherever there is an NVIDIA GPU; CUDA's driver is called directly, so no framework is needed.
"""

from __future__ import annotations

import json
import os
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tiny_recipe import EXPERIMENT, write_recipe

from hpcscientist.cli.main import run
from hpcscientist.config.settings import PathSettings, Settings
from hpcscientist.execution.backends.slots import gpu_names
from hpcscientist.launching.rehearsal import rehearse
from hpcscientist.recipe import load
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, Scored

GPUS = gpu_names(os.environ)
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not GPUS, reason="no GPU on this machine"),
]

CUDA = """\
import ctypes, json, os, time

driver, number = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
NAMES = {2: "CUDA_ERROR_OUT_OF_MEMORY", 100: "CUDA_ERROR_NO_DEVICE"}


def call(name, *arguments):
    code = getattr(driver, name)(*arguments)
    if code:
        raise RuntimeError(NAMES.get(code, f"CUDA error {code}"))


"""
# Says which GPUs there are, by their UUIDs, and from when to when the trial had them.
LOOK = """\
begun = time.time()
code = driver.cuInit(0)
if not code:
    call("cuDeviceGetCount", ctypes.byref(number))
uuids = []
for place in range(number.value):
    uuid = (ctypes.c_ubyte * 16)()
    call("cuDeviceGetUuid_v2", uuid, place)
    uuids.append(bytes(uuid).hex())
"""
TELL = """\
with open(SEEN, "a") as file:
    file.write(json.dumps({"gpus": uuids, "from": begun, "to": time.time()}) + "\\n")
"""
FILL = """\
call("cuInit", 0)
context, place = ctypes.c_void_p(), ctypes.c_uint64()
call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
while True:
    call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(1 << 30))
"""


def recipe_of(tmp_path: Path, first: str, last: str, gpus: int) -> Path:
    folder = write_recipe(tmp_path, tmp_path / "count", seeds=4)
    script = folder / "reference" / "experiment.py"
    head = f"SEEN = {str(tmp_path / 'seen')!r}\nCOUNT_FILE = {str(tmp_path / 'count')!r}\n"
    script.write_text(head + CUDA + first + EXPERIMENT + last)
    toml = folder / "recipe.toml"
    toml.write_text(toml.read_text().replace("[resources]", f"[resources]\ngpus = {gpus}"))
    return folder


def seen(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]


@pytest.mark.parametrize("gpus", [0, 1])
def test_each_trial_has_the_gpus_that_it_asked_for_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int
) -> None:
    monkeypatch.setenv("HPCSCI_PATHS_DATA", str(tmp_path / "data"))
    recipe = recipe_of(tmp_path, LOOK, TELL, gpus)
    launch = ["launch", "--recipe", str(recipe), "--run-dir", str(tmp_path / "run")]
    assert run([*launch, "--model", "search", "--ideas", "2", "--allow-unsandboxed"]) == 0
    trials = seen(tmp_path)
    assert {len(trial["gpus"]) for trial in trials} == {gpus}
    for one, other in combinations(trials, 2):
        if one["from"] < other["to"] and other["from"] < one["to"]:
            assert not set(one["gpus"]) & set(other["gpus"])


def test_a_gpu_that_is_full_is_told_as_such(tmp_path: Path) -> None:
    recipe = load.load(recipe_of(tmp_path, FILL, "", gpus=1))
    paths = PathSettings(data=str(tmp_path / "data"), private=str(tmp_path / "labels"))
    (rehearsal,) = rehearse(recipe, Settings(paths=paths))
    outcome = rehearsal.report.outcome
    assert isinstance(outcome, IdeaFailed)
    assert outcome.failure is IdeaFailure.OUT_OF_MEMORY
    assert "CUDA_ERROR_OUT_OF_MEMORY" in outcome.detail


def test_a_trial_that_fits_is_scored_and_its_gpu_hours_are_counted(tmp_path: Path) -> None:
    recipe = load.load(recipe_of(tmp_path, LOOK, TELL, gpus=1))
    paths = PathSettings(data=str(tmp_path / "data"), private=str(tmp_path / "labels"))
    (rehearsal,) = rehearse(recipe, Settings(paths=paths))
    assert isinstance(rehearsal.report.outcome, Scored)
    assert rehearsal.report.usage.gpu_s > 0
