from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest
from trialkit import CAMPAIGN, Bench

from hpcscientist.execution import trial
from hpcscientist.execution.container import apptainer_command, unbindable
from hpcscientist.records.outcome import Scored
from hpcscientist.records.trial import Isolation, TrialSpec

INSIDE = [
    f"HPCSCI_CAMPAIGN={CAMPAIGN}",
    "HPCSCI_TRIAL=trial-1",
    "HOME=/work",
    "LANG=C.UTF-8",
    "MKL_NUM_THREADS=1",
    "MPLBACKEND=Agg",
    "NUMEXPR_NUM_THREADS=1",
    "OMP_NUM_THREADS=1",
    "OPENBLAS_NUM_THREADS=1",
    "PYTHONDONTWRITEBYTECODE=1",
    "PYTHONHASHSEED=7",
    "TMPDIR=/work",
]


def contained(bench: Bench, body: str, image: str, **changes: int) -> TrialSpec:
    spec = bench.trial(body, **changes)
    sources = spec.sources.model_copy(update={"image": image})
    return spec.model_copy(update={"isolation": Isolation.APPTAINER, "sources": sources})


def test_command(bench: Bench) -> None:
    spec = contained(bench, "predict()", "/images/digits.sif")
    line = apptainer_command(spec, Path("/s/code"), Path("/r/out"), Path("/s/work"), {})
    assert line == [
        *("apptainer", "exec", "--containall", "--no-home", "--net", "--network", "none"),
        *("--pwd", "/work"),
        *("--bind", "/s/code:/code:ro"),
        *("--bind", f"{spec.sources.data}:/data:ro"),
        *("--bind", "/r/out:/out"),
        *("--bind", "/s/work:/work"),
        "/images/digits.sif",
        *("env", *sorted(INSIDE)),
        *("python3", "-B", "/code/experiment.py"),
        *("--data", "/data", "--out", "/out", "--seed", "7"),
        *("--budget", "full", "--split", "validation"),
    ]


def test_root_and_gpus(bench: Bench) -> None:
    spec = contained(bench, "predict()", "/i.sif", gpus=1)
    host = {"CUDA_VISIBLE_DEVICES": "0,1", "OPENAI_API_KEY": "secret"}
    line = apptainer_command(spec, Path("/c"), Path("/o"), Path("/w"), host, is_root=True)
    assert line[7:9] == ["--no-privs", "--nv"]
    assert "CUDA_VISIBLE_DEVICES=0,1" in line
    assert not any("secret" in part for part in line)


def test_paths_that_bind_cannot_express() -> None:
    assert unbindable(("/a", "/b:c")) == "/b:c"
    assert unbindable(("/a", "/b,c")) == "/b,c"
    assert unbindable(("/a", "/b c")) is None


@pytest.mark.skipif(
    shutil.which("apptainer") is None or "HPCSCI_TEST_IMAGE" not in os.environ,
    reason="NOT TESTED: the real container, for lack of apptainer and HPCSCI_TEST_IMAGE",
)
def test_a_real_container_scores_and_hides_the_labels(bench: Bench) -> None:
    body = f"""
    assert not os.path.exists({str(bench.labels)!r})
    assert not os.path.exists({str(bench.scorer)!r})
    assert os.listdir("/sys/class/net") == ["lo"]
    predict()
    """
    spec = contained(bench, body, os.environ["HPCSCI_TEST_IMAGE"])
    report = trial.run(spec, bench.run.trial(spec.trial_id), threading.Event())
    assert report.outcome == Scored(metrics={"accuracy": 0.75})
