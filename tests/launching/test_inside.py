"""Trials inside the controller's allocation: how many a node holds; what a launch refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import queue_stand_in
from checkpoint_kit import write_model
from hypothesis import example, given
from hypothesis import strategies as st

from hpcscientist.config.settings import ServingSettings, Settings
from hpcscientist.errors import ServingError, UsageError
from hpcscientist.execution.backends import local
from hpcscientist.history import frozen
from hpcscientist.launching import furnishing, launch, rendering
from hpcscientist.launching.serving import inside, nodes
from hpcscientist.launching.serving.inside import Engines
from hpcscientist.launching.serving.nodes import Kept
from hpcscientist.launching.sites import choosing
from hpcscientist.launching.sites.machine import ThisMachine
from hpcscientist.models.serving.fitting.drafting import memory_of_node
from hpcscientist.models.serving.fitting.layout import Machine
from hpcscientist.recipe.create import create
from hpcscientist.recipe.schema import Resources
from hpcscientist.records.site import ControllerSite, Site, SlurmSite

NODE = ControllerSite(cpus=16, memory_mb=64_000, gpus=4)


@pytest.mark.parametrize(
    ("needs", "engines", "slots"),
    [
        ({"cpus": 3, "memory_mb": 1000}, Engines(), 5),
        ({"cpus": 1, "memory_mb": 15_500}, Engines(4), 3),  # 16 012 MiB, its worker's included
        ({"cpus": 1, "memory_mb": 15_500}, Engines(0, 30_000), 2),
        ({"cpus": 1, "memory_mb": 1000, "gpus": 1}, Engines(), 4),
        ({"cpus": 1, "memory_mb": 1000, "gpus": 1}, Engines(2, 8_000), 2),
        ({"cpus": 1, "memory_mb": 1000, "gpus": 3}, Engines(), 1),
    ],
)
def test_slots_are_what_is_scarcest(needs: dict[str, int], engines: Engines, slots: int) -> None:
    assert inside.slots_of_node(Site(controller=NODE), Resources(**needs), engines) == slots


def test_memory_is_not_counted_where_slurm_does_not() -> None:
    site = Site(controller=NODE, slurm=SlurmSite(memory="none"))
    assert inside.slots_of_node(site, Resources(memory_mb=10**6)) == 16


@pytest.mark.parametrize(
    ("needs", "engines", "said"),
    [
        ({"cpus": 17}, Engines(), "raise cpus in the site profile's [controller]"),
        ({"memory_mb": 63_900}, Engines(), "raise memory_mb in"),
        ({"memory_mb": 31_000}, Engines(0, 33_000), "33000 MiB of which are for the models"),
        ({"gpus": 1}, Engines(4, 16_000), "16000 MiB and 4 GPUs of which are for the models"),
    ],
)
def test_a_node_too_small_is_refused(needs: dict[str, int], engines: Engines, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        inside.slots_of_node(Site(controller=NODE), Resources(**needs), engines)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small", num_hidden_layers=2)


def divided(model: Path, held: int, settings: ServingSettings, **needs: int) -> tuple[int, int]:
    """GPUs for the engines, and their replicas, of four nodes."""
    machine = Machine(nodes=4, gpus=held, gpu_memory_mb=80_000, cpus=16, memory_mb=64_000)
    left, layouts = inside.divide((model,), machine, settings, Site(), Resources(**needs))
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
    left, layouts = inside.divide((model,), machine, settings, site, needs)
    engines = Engines(memory_mb=memory_of_node(layouts.values(), left))
    assert 3_000 < engines.memory_mb <= 8_000 - 3_512
    assert inside.slots_of_node(site, needs, engines) == 1


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
        left, layouts = inside.divide((model,), machine, settings, site, needs)
    except ServingError:
        return  # too small, which is said
    engines = Engines(memory_mb=memory_of_node(layouts.values(), left))
    assert engines.memory_mb <= left.memory_mb
    assert inside.slots_of_node(site, needs, engines) >= 1


def test_trials_that_leave_no_gpu_for_the_engines_are_refused_at_launch(model: Path) -> None:
    settings = Settings(nodes=2, serving=ServingSettings(trials_inside=True))
    with pytest.raises(UsageError, match=r"raise gpus in .* to 5 or more, or leave"):
        inside.check(settings, Site(controller=NODE), Resources(gpus=4), (model,))
    inside.check(settings, Site(controller=NODE), Resources(gpus=4))  # served elsewhere
    small = Site(controller=ControllerSite(cpus=4, memory_mb=6_000))
    with pytest.raises(ServingError, match=r"beside a trial of 1 CPUs, 3000 MiB .* does not fit"):
        inside.check(settings, small, Resources(memory_mb=3_000), (model,))
    inside.check(settings, small, Resources(memory_mb=1_000), (model,))


def test_memory_that_engines_on_gpus_of_unknown_kind_leave_no_trial_is_refused_at_launch(
    model: Path,
) -> None:
    settings = Settings(nodes=2, serving=ServingSettings(trials_inside=True))
    site = Site(controller=ControllerSite(cpus=16, memory_mb=17_000, gpus=4))
    with pytest.raises(UsageError, match="16384 MiB and 4 GPUs of which are for the models"):
        inside.check(settings, site, Resources(memory_mb=1_000), (model,))
    # Trials may come to have three of the GPUs.
    inside.check(settings, site, Resources(memory_mb=1_000, gpus=1), (model,))
    inside.check(settings, site, Resources(memory_mb=1_000))  # served elsewhere


def test_how_a_node_is_divided_is_said_at_launch(model: Path) -> None:
    settings = Settings(nodes=2, serving=ServingSettings(trials_inside=True))
    site = Site(controller=ControllerSite(cpus=16, memory_mb=64_000))
    *layout, last = inside.check(settings, site, Resources(cpus=8, memory_mb=1_000), (model,))
    assert layout[0].startswith("small: ")
    said = re.fullmatch(
        r"of each node models have (\d+) MiB and trials (\d+) MiB; 4 at once in all", last
    )
    assert said is not None
    assert sum(map(int, said.groups())) == 64_000
    known = Site(controller=NODE, slurm=SlurmSite(gres="gpu:a100-80gb:{gpus}"))
    *_, last = inside.check(settings, known, Resources(gpus=1), (model,))
    assert last == "of each node models have 3 GPUs and trials 1; 2 at once in all"
    unknown = Site(controller=NODE)
    (only,) = inside.check(settings, unknown, Resources(gpus=1), (model,))
    assert "settled in the job" in only


@pytest.fixture
def four_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine as the GPUs' driver tells of it."""
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "nvidia-smi").write_text("#!/bin/sh\nprintf '80000\\n80000\\n80000\\n80000\\n'\n")
    (commands / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")


@pytest.mark.usefixtures("four_gpus")
def test_gpus_of_this_machine_are_divided_too(model: Path) -> None:
    settings = Settings()
    *layout, last = inside.check_here(settings, Site(), Resources(gpus=1), (model,))
    assert layout
    assert last == "of this machine models have 3 GPUs and trials 1"
    (shared,) = inside.check_here(settings, Site(), Resources(gpus=4), (model,))
    assert shared.startswith("models and trials share this machine's 4 GPUs")
    assert inside.check_here(settings, Site(), Resources(), (model,)) == ()
    assert inside.check_here(settings, Site(), Resources(gpus=1), ()) == ()


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("gpus", "kept", "seen"), [(0, 0, "0,1,2,3"), (1, 1, "3"), (2, 2, "2,3"), (4, 0, "0,1,2,3")]
)
def test_models_and_trials_of_one_machine_have_gpus_of_their_own(
    gpus: int, kept: int, seen: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the engines leave is what trials are given, and nothing else."""
    recipe = create("mine", tmp_path)
    text = (recipe / "recipe.toml").read_text()
    (recipe / "recipe.toml").write_text(
        text.replace("[resources]\n", f"[resources]\ngpus = {gpus}\n")
    )
    settings = Settings(backend="local", recipe=str(recipe), model="search", run_dir="run")
    checked = launch.check(settings, tmp_path)
    assert checked.recipe.spec.resources.gpus == gpus
    claimed = furnishing.claim(checked)
    furnishing.furnish(checked, claimed)
    config = frozen.read(claimed.paths).model_copy(
        update={"role_specs": {"ideation": f"vllm:{model}"}}
    )
    machine = nodes.machine_of(Site(), nodes.here(), is_slurm=False)
    keep = inside.keeper(claimed.paths, config, "")(machine)
    assert keep == Kept(kept)
    given: list[tuple[str, ...]] = []
    monkeypatch.setattr(local, "Slots", lambda slots, names, memory_mb: given.append(names))
    place = choosing.of(config)
    assert isinstance(place, ThisMachine)
    replace(place, engines=machine.gpus - kept).open(claimed.paths, "c", 1)
    assert given == [tuple(seen.split(","))]


def test_refused_at_launch_where_no_job_drives(tmp_path: Path) -> None:
    settings = Settings(model="search", serving=ServingSettings(trials_inside=True))
    with pytest.raises(UsageError, match="give --nodes N, or leave trials_inside out"):
        launch.check(settings, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_array_is_shown_where_trials_run_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_stand_in.install(tmp_path, monkeypatch)
    (tmp_path / "site.toml").write_text("[controller]\nmemory_mb = 8000\n")
    settings = Settings(
        model="search", backend="slurm", site="site.toml", nodes=2, allow_unsandboxed=True
    )
    purposes = {}
    for inside_too in (False, True):
        serving = ServingSettings(trials_inside=inside_too)
        checked = launch.check(settings.model_copy(update={"serving": serving}), tmp_path)
        purposes[inside_too] = [purpose.partition(" ")[2] for purpose in rendering.scripts(checked)]
    assert purposes[True] == ["job that drives the campaign"]
    assert purposes[False] == [*purposes[True], "array of trials: the baseline's"]
