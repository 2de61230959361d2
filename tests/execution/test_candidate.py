from __future__ import annotations

from pathlib import Path

import pytest
from trialkit import CAMPAIGN, Bench

from hpcscientist.execution.sandbox.host import command, environment


def test_command(bench: Bench) -> None:
    spec = bench.trial("predict()")
    assert command(spec, Path("/scratch/code"), Path("/run/out")) == [
        spec.sources.python,
        "-B",
        "/scratch/code/experiment.py",
        *("--data", spec.sources.data, "--out", "/run/out", "--seed", "7"),
        *("--budget", "full", "--split", "validation"),
    ]


def test_environment_is_made_from_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("site.ENABLE_USER_SITE", False)
    host = {"PATH": "/bin", "OPENAI_API_KEY": "secret", "CUDA_VISIBLE_DEVICES": "3"}
    host |= {"PYTHONPATH": "/x", "SLURM_JOB_ID": "1", "HOME": "/home/someone"}
    spec = bench.trial("predict()", cpus=3)
    assert environment(spec, Path("/scratch"), host) == {
        "PATH": "/bin",
        "HOME": "/scratch",
        "TMPDIR": "/scratch",
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "7",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "3",
        "OPENBLAS_NUM_THREADS": "3",
        "MKL_NUM_THREADS": "3",
        "NUMEXPR_NUM_THREADS": "3",
        "MPLBACKEND": "Agg",
        "CUDA_VISIBLE_DEVICES": "",
        "HPCSCI_CAMPAIGN": CAMPAIGN,
        "HPCSCI_TRIAL": "trial-1",
    }


@pytest.mark.parametrize("given", [{"CUDA_VISIBLE_DEVICES": "2,5"}, {}])
def test_gpus_are_passed_on_as_the_scheduler_gave_them(bench: Bench, given: dict[str, str]) -> None:
    made = environment(bench.trial("predict()", gpus=2), Path("/scratch"), given)
    assert {k: v for k, v in made.items() if k.startswith("CUDA")} == given
