"""A campaign whose own models load, and do not come to answer, while it is driven already."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from checkpoint_kit import write_model
from tiny_recipe import write_recipe

from hpcscientist.config.settings import Settings
from hpcscientist.errors import ServingError
from hpcscientist.history import frozen, journal
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import status
from hpcscientist.launching import create_run_dir, drive, launch
from hpcscientist.launching.serving.driver_sidecar import DriverSidecar
from hpcscientist.models.serving.fitting.layout import Machine
from hpcscientist.models.serving.order import Endpoint, ServingPaths
from hpcscientist.models.serving.plane import Plane
from hpcscientist.records.events import Event, PlaneStarted, PlaneStopped, TrialEnded


@pytest.fixture
def answers() -> Future[Endpoint]:
    """What is known of the plane: whether its models answer."""
    return Future()


@pytest.fixture
def served(
    tmp_path: Path, answers: Future[Endpoint], monkeypatch: pytest.MonkeyPatch
) -> create_run_dir.RunPaths:
    """A campaign that asks a model beside its driver, whose plane does as `answers` says."""
    write_recipe(tmp_path, tmp_path / "executed", 2)
    settings = Settings(recipe="./tiny", backend="local", model="search", ideas=2, run_dir="run")
    monkeypatch.chdir(tmp_path)
    checked = launch.check(settings, tmp_path)
    claimed = create_run_dir.claim(checked)
    create_run_dir.furnish(checked, claimed)
    model = write_model(tmp_path / "model")
    spec = f"vllm:{model}"
    roles = dict.fromkeys(("ideation", "code", "review"), spec)
    asks = {"model_spec": spec, "role_specs": roles}
    frozen.write(claimed.paths, frozen.read(claimed.paths).model_copy(update=asks))
    order = SimpleNamespace(gpus=0, memory_mb=0, contexts={}, models=())

    @contextmanager
    def beside(*_: object) -> Iterator[DriverSidecar]:
        yield DriverSidecar(
            plane=cast("Plane", SimpleNamespace(lost="", order=order)),
            answers=answers,
            machine=Machine(nodes=1, gpus=0, gpu_memory_mb=0, cpus=2, memory_mb=1000),
            settings=settings,
            paths=ServingPaths(claimed.paths.serving),
            folders={spec: model},
            since=0.0,
        )

    monkeypatch.setattr(drive, "beside", beside)
    return claimed.paths


def test_the_baseline_does_not_wait_for_the_models(
    served: create_run_dir.RunPaths, answers: Future[Endpoint]
) -> None:
    """They never answer, which is known only once its last trial has ended."""
    left = 2

    def observe(event: Event, state: CampaignState) -> None:
        nonlocal left
        if isinstance(event, TrialEnded):
            left -= 1
            if not left:
                answers.set_exception(ServingError("it did not start"))

    with pytest.raises(ServingError, match="it did not start") as failed:
        drive.drive(served, observe)
    events = journal.read(served.journal)
    ended = {event.report.trial_id for event in events if isinstance(event, TrialEnded)}
    assert len(ended) == 2
    assert all(trial.startswith("baseline-") for trial in ended)
    assert not any(isinstance(event, PlaneStarted | PlaneStopped) for event in events)
    assert status(served)["state"] == "failed"
    state = CampaignState()
    for event in events:
        state.apply(event)
    assert state.stopped is not None
    assert state.stopped.reason == str(failed.value)
