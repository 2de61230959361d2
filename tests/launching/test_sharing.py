"""Nodes that models and trials share: who has how much of them, and which GPUs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from checkpoint_kit import write_json, write_model
from hypothesis import example, given
from hypothesis import strategies as st

from hpcscientist.campaign.agents import Session
from hpcscientist.config.settings import ServingSettings, Settings
from hpcscientist.errors import ServingError
from hpcscientist.execution.backends import local
from hpcscientist.history import frozen
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.launching import create_run_dir, launch, wiring
from hpcscientist.launching.create_run_dir import ClaimedFolder
from hpcscientist.launching.launch_plan import LaunchPlan
from hpcscientist.launching.serving import colocated_trials, nodes, sharing
from hpcscientist.launching.serving.driver_sidecar import DriverSidecar
from hpcscientist.launching.serving.sharing import Engines
from hpcscientist.launching.sites import machine
from hpcscientist.models.serving.fitting.drafting import memory_of_node
from hpcscientist.models.serving.fitting.layout import Machine
from hpcscientist.models.serving.nodes.node import first_gpus
from hpcscientist.models.serving.plane import Plane
from hpcscientist.recipe.create import create
from hpcscientist.recipe.schema import Resources
from hpcscientist.records.model_calls import Role
from hpcscientist.records.site import ControllerSite, Site


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small", num_hidden_layers=2)


def divided(model: Path, held: int, settings: ServingSettings, **needs: int) -> tuple[int, int]:
    """GPUs for the engines, and their replicas, of four nodes."""
    machine = Machine(nodes=4, gpus=held, gpu_memory_mb=80_000, cpus=16, memory_mb=64_000)
    left, layouts = sharing.divide((model,), machine, settings, Site(), Resources(**needs))
    return left.gpus, layouts[model].replicas


def test_gpus_are_divided_alike_on_every_node(model: Path) -> None:
    assert divided(model, 4, ServingSettings()) == (4, 16)
    assert divided(model, 4, ServingSettings(), gpus=1) == (3, 12)
    assert divided(model, 4, ServingSettings(), gpus=3) == (1, 4)
    # Serving does as well with fewer: trials have the rest.
    assert divided(model, 4, ServingSettings(replicas=2), gpus=1) == (1, 2)
    assert divided(model, 8, ServingSettings(replicas=6), gpus=2) == (2, 6)


def test_engines_without_gpus_leave_memory_for_a_trial(model: Path) -> None:
    machine = Machine(nodes=2, gpus=0, gpu_memory_mb=0, cpus=4, memory_mb=8_000)
    settings, needs = ServingSettings(kv_cache_gb=4), Resources(memory_mb=3_000)
    site = Site(controller=ControllerSite(cpus=4, memory_mb=8_000))
    left, layouts = sharing.divide((model,), machine, settings, site, needs)
    engines = Engines(memory_mb=memory_of_node(layouts.values(), left))
    assert 3_000 < engines.memory_mb <= 8_000 - 3_512
    assert colocated_trials.slots_of_node(site, needs, engines) == 1


@given(
    memory_mb=st.integers(8_000, 70_000),
    needed=st.integers(64, 4_000),
    nodes=st.integers(1, 3),
    replicas=st.integers(0, 9),
    kv_cache_gb=st.sampled_from([0.1, 4, 64]),
)
@example(memory_mb=16_001, needed=1_024, nodes=1, replicas=2, kv_cache_gb=64)
def test_engines_that_share_a_node_leave_a_trial_its_memory_to_the_mebibyte(
    model: Path, memory_mb: int, needed: int, nodes: int, replicas: int, kv_cache_gb: float
) -> None:
    site = Site(controller=ControllerSite(cpus=4, memory_mb=memory_mb))
    machine = Machine(nodes=nodes, gpus=0, gpu_memory_mb=0, cpus=4, memory_mb=memory_mb)
    settings = ServingSettings(kv_cache_gb=kv_cache_gb, replicas=replicas)
    needs = Resources(memory_mb=needed)
    try:
        left, layouts = sharing.divide((model,), machine, settings, site, needs)
    except ServingError:
        return  # too small, which is said
    engines = Engines(memory_mb=memory_of_node(layouts.values(), left))
    assert engines.memory_mb <= left.memory_mb
    assert colocated_trials.slots_of_node(site, needs, engines) >= 1


@pytest.fixture(params=["0,1,2,3", "4,5,6,7", "GPU-a,GPU-b,GPU-c,GPU-d", None])
def four_gpus(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The names of this machine's GPUs, of which their driver tells."""
    commands = tmp_path / "commands"
    commands.mkdir()
    asked = commands / "asked"
    listed = "".join(f"GPU-{letter}1234, 80000\n" for letter in "abcdefgh")
    shown = listed if request.param == "4,5,6,7" else "".join(listed.splitlines(True)[:4])
    (commands / "nvidia-smi").write_text(f"#!/bin/sh\ntouch {asked}\ncat <<'E'\n{shown}E\n")
    (commands / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    if request.param is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        return ["0", "1", "2", "3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", request.param)
    return str(request.param).split(",")


@pytest.mark.usefixtures("four_gpus")
def test_gpus_of_this_machine_are_divided_too(model: Path, tmp_path: Path) -> None:
    serving = ServingSettings()
    for needs, folders in ((Resources(), (model,)), (Resources(gpus=1), ())):
        assert sharing.said_here(serving, Site(), needs, folders) == ()
    assert not (tmp_path / "commands" / "asked").exists()  # what takes seconds is not asked then
    *layout, last = sharing.said_here(serving, Site(), Resources(gpus=1), (model,))
    assert layout
    assert re.search("models [a-z]+ 3 GPUs .*trials 1$", last)
    wide = ServingSettings(tensor_parallel=4)
    for settings, needs in ((serving, Resources(gpus=4)), (wide, Resources(gpus=1))):
        *layout, last = sharing.said_here(settings, Site(), needs, (model,))
        assert layout
        assert re.match(r"models .*share .*\(4\): .*serving\.memory_fraction", last)
    with pytest.raises(ServingError, match="tensor_parallel"):
        too_wide = ServingSettings(tensor_parallel=8)
        sharing.said_here(too_wide, Site(), Resources(gpus=4), (model,))


def launched(
    folder: Path, gpus: int, model: Path
) -> tuple[LaunchPlan, ClaimedFolder, CampaignConfig]:
    """A launch whose trials need GPUs, and its settings with a served model."""
    recipe = create("mine", folder)
    text = (recipe / "recipe.toml").read_text()
    (recipe / "recipe.toml").write_text(
        text.replace("[resources]\n", f"[resources]\ngpus = {gpus}\n")
    )
    settings = Settings(backend="local", recipe=str(recipe), model="search", run_dir="run")
    checked = launch.check(settings, folder)
    claimed = create_run_dir.claim(checked)
    create_run_dir.furnish(checked, claimed)
    role_specs: dict[Role, str] = {"ideation": f"vllm:{model}"}
    config = frozen.read(claimed.paths).model_copy(update={"role_specs": role_specs})
    return checked, claimed, config


@pytest.mark.parametrize(("gpus", "kept"), [(0, 0), (1, 1), (2, 2), (4, 0)])
def test_models_and_trials_of_one_machine_have_gpus_of_their_own(
    gpus: int,
    kept: int,
    four_gpus: list[str],
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the engines leave is what trials are given, and nothing else, as it is wired."""
    monkeypatch.setattr(machine, "count_gpus", lambda environ: 4)  # it looks into /dev
    checked, claimed, config = launched(tmp_path, gpus, model)
    whole = nodes.machine_of(Site(), nodes.here(), is_slurm=False)
    left = colocated_trials.keeper(claimed.paths, config, "")(whole, {}).taken_from(whole)
    assert (whole.gpus, left.gpus) == (4, 4 - kept)
    engines = first_gpus(left.gpus, os.environ)["CUDA_VISIBLE_DEVICES"].split(",")
    assert engines == four_gpus[: 4 - kept]
    names: list[Sequence[str]] = []
    monkeypatch.setattr(local, "Slots", lambda slots, own, memory_mb: names.append(own))
    monkeypatch.setattr(local, "gpu_names", lambda environ: tuple(four_gpus))
    plane = SimpleNamespace(order=SimpleNamespace(gpus=left.gpus, memory_mb=0))
    others = dict.fromkeys(("answers", "settings", "paths", "folders", "since"))
    beside = DriverSidecar(plane=cast("Plane", plane), machine=whole, **cast("Any", others))
    state = CampaignState()
    journal = Journal(claimed.paths.journal, state.apply)
    session = Session(claimed.paths, journal, state, generation=1)
    wiring._backend(config, checked.recipe, session, beside)
    assert list(names[0]) == (four_gpus[4 - kept :] if kept else four_gpus)


@pytest.mark.parametrize("job", ["", "7"])
def test_shapes_that_only_the_engine_reads_are_divided_by_its_word(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "count_gpus", lambda environ: 4)
    model = write_model(tmp_path / "new", num_hidden_layers=2)
    read = json.loads((model / "config.json").read_text())
    write_json(model / "config.json", {"architectures": ["NewForCausalLM"]})
    _, claimed, config = launched(tmp_path, 1, model)
    serving, site = (
        ServingSettings(trials_inside=True),
        Site(controller=ControllerSite(cpus=16, memory_mb=64_000, gpus=4)),
    )
    settings = config.settings.model_copy(update={"serving": serving})
    config = config.model_copy(update={"settings": settings, "site": site})
    keep = colocated_trials.keeper(claimed.paths, config, job)
    node = Machine(nodes=1, gpus=4, gpu_memory_mb=80_000, cpus=16, memory_mb=64_000)
    assert keep(node, {model: read}).gpus == 1
    with pytest.raises(ServingError):
        keep(node, {})
