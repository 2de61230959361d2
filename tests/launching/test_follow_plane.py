"""Whoever follows a job is told how the campaign's own models come to be served."""

from __future__ import annotations

from pathlib import Path

import pytest
import queue_stand_in

from hpcscientist.errors import CampaignError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.files.rundir import RunPaths
from hpcscientist.launching.jobs.follow import Follower
from hpcscientist.models.serving.paths import ServingPaths


def test_each_step_of_the_plane_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_stand_in.install(tmp_path, monkeypatch)
    state = ServingPaths(RunPaths(tmp_path / "run").serving).state
    state.parent.mkdir(parents=True)
    state.write_text("ready\n")  # an earlier job's
    steps = iter(["", "1 of 2 nodes have joined\n", "1 of 2 nodes have joined\n", "ready\n"])
    told: list[str] = []
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += 0.5
        text = next(steps, None)
        if text == "":
            state.unlink()
        elif text is not None:
            state.write_text(text)

    follower = Follower(
        RunPaths(tmp_path / "run"), lambda event, now: None, told.append, wait, lambda: now
    )
    with pytest.raises(CampaignError, match="job 7 is gone"):
        follower.follow(Slurm(), "digits-1a2b", "7")
    assert [line for line in told if line.startswith("model plane")] == [
        "model plane: 1 of 2 nodes have joined",
        "model plane: ready",
    ]
