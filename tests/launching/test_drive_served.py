"""What stops a campaign whose own models are served, before its loop begins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from checkpoint_kit import write_model

from hpcscientist.config.settings import ServingSettings, Settings
from hpcscientist.errors import RunDirectoryError, UsageError
from hpcscientist.files import vault
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.status import read_state, status
from hpcscientist.launching import create_run_dir, drive, launch
from hpcscientist.models.serving.checking import interpreter
from hpcscientist.models.serving.checking.interpreter import ServingEngine
from hpcscientist.models.serving.order import ServingPaths
from hpcscientist.records.site import ControllerSite, Site


@pytest.fixture
def served(tmp_path: Path) -> RunPaths:
    """A campaign that a job of two nodes with four GPUs each drives, with trials inside."""
    settings = Settings(backend="local", model="search", run_dir="run")
    checked = launch.check(settings, tmp_path)
    claimed = create_run_dir.claim(checked)
    create_run_dir.furnish(checked, claimed)
    model = write_model(tmp_path / "model")
    config = frozen.read(claimed.paths).model_copy(
        update={
            "role_specs": {"ideation": f"vllm:{model}", "code": f"vllm:{model}"},
            "settings": settings.model_copy(
                update={"nodes": 2, "serving": ServingSettings(trials_inside=True)}
            ),
            "site": Site(controller=ControllerSite(cpus=16, memory_mb=17_000, gpus=4)),
        }
    )
    frozen.write(claimed.paths, config)
    return claimed.paths


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a job as Slurm and the GPUs' driver tell of it."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for name, said in (("squeue", "n[1-2]"), ("scontrol", "n1 n2"), ("nvidia-smi", "GPU-a, 80000")):
        (commands / name).write_text(f"#!/bin/sh\necho '{said}'\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return "7"


def reason_of(paths: RunPaths) -> str:
    state = read_state(paths)
    assert state.stopped is not None
    assert status(paths)["state"] == "failed"
    return state.stopped.reason


def test_a_node_too_small_for_engines_and_a_trial_is_refused_before_anything_starts(
    served: RunPaths, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    knows = ServingEngine(python="python", vllm="0.1", ray="2.1", known=True, writes=True)
    monkeypatch.setattr(interpreter, "ask", lambda folder, python: knows)
    told: list[str] = []
    with pytest.raises(UsageError, match=r"\b16384 MiB and 4 GPUs .*models") as no:
        drive.drive(served, lambda event, state: None, told.append, job)
    assert reason_of(served) == str(no.value)
    assert told == []
    assert not ServingPaths(served.serving).order.exists()


def test_what_cannot_be_put_together_once_models_answer_is_said(
    served: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def beside(*_: object) -> Iterator[None]:
        """A plane that answers, which takes an engine and minutes; nobody comes to ask it."""
        yield None

    monkeypatch.setattr(drive, "beside", beside)
    vault.forget_campaign_key(frozen.read(served).campaign_id)
    with pytest.raises(RunDirectoryError, match=r"\bkey .*gone") as gone:
        drive.drive(served, lambda event, state: None)
    assert reason_of(served) == str(gone.value)
