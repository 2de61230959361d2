"""Each stage of a plane's start is in its state file from the first one on: followers read it."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoint_kit import write_model

from hpcscientist.config.settings import ServingSettings
from hpcscientist.errors import ServingError
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving.nodes import here
from hpcscientist.models.serving.paths import ServingPaths
from hpcscientist.models.serving.plane import Launcher
from hpcscientist.models.serving.steps import LocalSteps, SlurmSteps, Steps
from hpcscientist.records.site import ControllerSite, Site


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        (SlurmSteps("7", 1), "trying the engine: "),  # which takes minutes from a slow file system
        (LocalSteps(), "starting Ray on 1 node\n"),
    ],
)
def test_what_is_waited_for(steps: Steps, state: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 3\n")  # both the engine's check and a node end at once
    python.chmod(0o755)
    write_model(tmp_path / "small", num_hidden_layers=2)
    request = serving.Request(
        paths=ServingPaths(tmp_path / "plane"),
        owner="o",
        folders=(tmp_path / "small",),
        settings=ServingSettings(kv_cache_gb=0.25),
        site=Site(controller=ControllerSite(memory_mb=16_000)),
    )
    launcher = Launcher(steps, str(python))
    with pytest.raises(ServingError), serving.serve(request, here(), launcher, lambda text: None):
        pass
    assert request.paths.state.read_text().startswith(state)
