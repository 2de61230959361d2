"""Each stage of a plane's start is in its state file from the first one on: followers read it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from checkpoint_kit import write_model

from hpcscientist.config.settings import ServingSettings
from hpcscientist.errors import ServingError
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving.nodes import here
from hpcscientist.models.serving.order import Order, ServingPaths, port_block
from hpcscientist.models.serving.plane import Launcher, LocalSteps, Plane, SlurmSteps
from hpcscientist.records.site import ControllerSite, Site


@pytest.fixture
def python(tmp_path: Path) -> str:
    """An interpreter that ends at once, whatever it is to run."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    return str(python)


def test_that_the_engine_is_tried(python: str, tmp_path: Path) -> None:
    """It takes minutes from a slow file system."""
    write_model(tmp_path / "small", num_hidden_layers=2)
    request = serving.ServingRequest(
        paths=ServingPaths(tmp_path / "plane"),
        owner="o",
        folders=(tmp_path / "small",),
        settings=ServingSettings(kv_cache_gb=0.25),
        site=Site(controller=ControllerSite(memory_mb=16_000)),
    )
    launcher = Launcher(SlurmSteps("7", 1), python)
    with pytest.raises(ServingError), serving.serve(request, here(), launcher, lambda text: None):
        pass
    assert re.fullmatch(f"trying .*: {re.escape(python)}\n", request.paths.state.read_text())


def test_that_ray_is_started(python: str, tmp_path: Path) -> None:
    order = Order(
        nonce="n-0",
        owner="o",
        root=str(tmp_path),
        nodes=("n1",),
        head="127.0.0.1",
        ports=port_block(1),
        models=(),
        cpus=1,
        gpus=0,
        object_store=80,
        scratch="",
        ready_s=600,
        lease_s=60,
    )
    with pytest.raises(ServingError):
        Plane(order, Launcher(LocalSteps(), python), 1, lambda text: None).start()
    assert re.fullmatch("starting Ray .* 1 node\n", ServingPaths(order.folder).state.read_text())
