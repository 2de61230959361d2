"""A campaign by a real open-weight model on vLLM's CPU engine; it takes an hour or more.

What it finds is printed and not asserted, but for what does not depend on the model's luck: every
idea comes to an end, and no reply is cut at its limit in a list without end.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import topic_papers

from hpcscientist.bench.model.measure import STEPS
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.order import ServingPaths
from hpcscientist.models.serving.plane import read_endpoint

TESTS = Path(__file__).resolve().parents[1]
HPCSCI = [sys.executable, "-P", "-m", "hpcscientist.cli.main"]
SIZE, IDEAS, SEEDS = "0.5b", 4, 1

pytestmark = [pytest.mark.serving, pytest.mark.timeout(4 * 3600)]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a real model; see `tests/real_model`."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("NOT TESTED: vLLM is not installed; tests/serving_environment")
    folder = tmp_path_factory.mktemp("weights") / SIZE
    command = [TESTS / "real_model", SIZE, folder, sys.executable]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return folder


def test_a_campaign_by_a_real_model(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hpcsci.toml").write_text(
        "[serving]\ncontext = 16384\n[client]\ntimeout_s = 3600\n"
    )
    command = [*HPCSCI, "bench", "model", "--json"]
    command += ["--model", f"vllm:{weights}", "--ideas", str(IDEAS), "--seeds", str(SEEDS)]
    command += ["--allow-unsandboxed"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    with capsys.disabled():
        print(done.stderr)  # the tables
    assert done.returncode == 0, done.stderr
    found = {row["name"]: row for row in json.loads(done.stdout)}
    counts = [found[f"ideas {step}"]["value"] for step in STEPS]
    assert counts[0] == IDEAS
    assert found["propose: calls"]["value"] >= IDEAS
    if "plan: cut" in found:
        assert found["plan: cut"]["value"] == 0


@contextmanager
def served(model: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Serve a model by `hpcsci serve`; give its SPEC and the key."""
    (folder / "hpcsci.toml").write_text("[serving]\ncontext = 4096\n[client]\ntimeout_s = 3600\n")
    command = [*HPCSCI, "serve", "--model", f"vllm:{model}", "--dir", "served"]
    paths = ServingPaths(folder / "served")
    with (folder / "serve.err").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=log)
    try:
        while (endpoint := read_endpoint(paths)) is None:
            assert process.poll() is None, (folder / "serve.err").read_text()
            time.sleep(1)
        yield f"{endpoint.url}#{endpoint.models[0]}", secrets.read(paths.key)
    finally:
        process.terminate()
        process.wait()


def test_expectations_beside_samples(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """How well a model's scores tell papers on a task from papers on tasks like it."""
    topic_papers.write(tmp_path / "topic", 40)
    command = [*HPCSCI, "bench", "review", "--json", "--labelled", "topic"]
    command += ["--form", "topic/form", "--ensemble", "1", "--reflections", "1"]
    with served(weights, tmp_path) as (spec, key):
        done = subprocess.run(
            [*command, "--model", spec],
            cwd=tmp_path,
            env=os.environ | {"HPCSCI_API_KEY": key},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    with capsys.disabled():
        for name, measure in found["scores"].items():
            print(f"AUROC, {name}: {measure}")
    for name in ("sampled", "expected", "gain"):
        assert found["scores"][f"one reviewer, {name}"]["count"] == 40
