"""Trials inside the controller's allocation: how many a node holds; what a launch refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import queue_stand_in
from checkpoint_kit import write_model

from hpcscientist.config.settings import ServingSettings, Settings
from hpcscientist.errors import ServingError, UsageError
from hpcscientist.launching import launch, launch_plan
from hpcscientist.launching.serving import colocated_trials
from hpcscientist.launching.serving.sharing import Engines
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
    assert (
        colocated_trials.slots_of_node(Site(controller=NODE), Resources(**needs), engines) == slots
    )


def test_memory_is_not_counted_where_slurm_does_not() -> None:
    site = Site(controller=NODE, slurm=SlurmSite(memory="none"))
    assert colocated_trials.slots_of_node(site, Resources(memory_mb=10**6)) == 16


@pytest.mark.parametrize(
    ("needs", "engines", "said"),
    [
        ({"cpus": 17}, Engines(), r"raise cpus .*\[controller\]"),
        ({"memory_mb": 63_900}, Engines(), r"raise memory_mb in .*\[controller\]"),
        ({"memory_mb": 31_000}, Engines(0, 33_000), r"\b33000 MiB .*models"),
        ({"gpus": 1}, Engines(4, 16_000), r"\b16000 MiB and 4 GPUs .*models"),
    ],
)
def test_a_node_too_small_is_refused(needs: dict[str, int], engines: Engines, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        colocated_trials.slots_of_node(Site(controller=NODE), Resources(**needs), engines)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small", num_hidden_layers=2)


def test_trials_that_leave_no_gpu_for_the_engines_are_refused_at_launch(model: Path) -> None:
    settings = Settings(nodes=2, serving=ServingSettings(trials_inside=True))
    with pytest.raises(UsageError, match=r"raise gpus .* 5 .*\btrials_inside\b"):
        colocated_trials.check(settings, Site(controller=NODE), Resources(gpus=4), (model,))
    colocated_trials.check(settings, Site(controller=NODE), Resources(gpus=4))  # served elsewhere
    small = Site(controller=ControllerSite(cpus=4, memory_mb=6_000))
    with pytest.raises(ServingError, match=r"trial of 1 CPUs, 3000 MiB .*not fit"):
        colocated_trials.check(settings, small, Resources(memory_mb=3_000), (model,))
    colocated_trials.check(settings, small, Resources(memory_mb=1_000), (model,))


def test_memory_that_engines_on_gpus_of_unknown_kind_leave_no_trial_is_refused_at_launch(
    model: Path,
) -> None:
    settings = Settings(nodes=2, serving=ServingSettings(trials_inside=True))
    site = Site(controller=ControllerSite(cpus=16, memory_mb=17_000, gpus=4))
    with pytest.raises(UsageError, match=r"\b16384 MiB and 4 GPUs .*models"):
        colocated_trials.check(settings, site, Resources(memory_mb=1_000), (model,))
    # Trials may come to have three of the GPUs.
    colocated_trials.check(settings, site, Resources(memory_mb=1_000, gpus=1), (model,))
    colocated_trials.check(settings, site, Resources(memory_mb=1_000))  # served elsewhere


def test_how_a_node_is_divided_is_said_at_launch(model: Path) -> None:
    settings = Settings(nodes=2, serving=ServingSettings(trials_inside=True))
    site = Site(controller=ControllerSite(cpus=16, memory_mb=64_000))
    needs = Resources(cpus=8, memory_mb=1_000)
    found = colocated_trials.check(settings, site, needs, (model,))
    first, *_, shares = found.lines
    assert found.at_once == 4
    assert first.startswith("small: ")
    said = re.fullmatch(r".*models [a-z]+ (\d+) MiB, trials (\d+) MiB; 4 at once .*", shares)
    assert said is not None
    assert sum(map(int, said.groups())) == 64_000
    assert colocated_trials.check(settings, site, needs).at_once == 4
    assert colocated_trials.check(settings, site, needs).lines == ()


def test_what_is_not_divided_is_not_said(model: Path) -> None:
    settings = Settings(nodes=1, serving=ServingSettings(trials_inside=True))
    uncounted = Site(controller=NODE, slurm=SlurmSite(memory="none", gres="gpu:a100-80gb:{gpus}"))
    *_, last = colocated_trials.check(settings, uncounted, Resources(gpus=1), (model,)).lines
    assert re.search("models [a-z]+ 3 GPUs, trials 1 GPUs; 1 at once", last)
    known = Site(controller=NODE, slurm=SlurmSite(gres="gpu:a100-80gb:{gpus}"))
    *_, last = colocated_trials.check(settings, known, Resources(), (model,)).lines
    assert re.fullmatch(r".*models [a-z]+ \d+ MiB, trials \d+ MiB; \d+ at once .*", last)
    found = colocated_trials.check(settings, Site(controller=NODE), Resources(gpus=1), (model,))
    (line,) = found.lines
    assert re.search("memory .*not known", line)
    assert found.at_once == 3


def test_refused_at_launch_where_no_job_drives(tmp_path: Path) -> None:
    settings = Settings(model="search", serving=ServingSettings(trials_inside=True))
    with pytest.raises(UsageError, match=r"--nodes N, .*\btrials_inside\b"):
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
        purposes[inside_too] = [
            purpose.partition(" ")[2] for purpose in launch_plan.scripts(checked)
        ]
    assert ["drives" in purpose for purpose in purposes[True]] == [True]
    *same, trials = purposes[False]
    assert same == purposes[True]
    assert re.match("array .*baseline", trials)
