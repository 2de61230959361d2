"""Which backend, image and isolation a launch gets, with programs of our own on PATH."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from programs_kit import add

from hpcscientist.config.settings import LoopSettings, Settings
from hpcscientist.errors import UsageError
from hpcscientist.launching.sites.choosing import Placement, ideas_in_flight, place
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.trial import Isolation
from hpcscientist.system import gpus

UP = "Slurmctld(primary) at head is UP"
DOWN = "Slurmctld(primary) at head is DOWN"


def placed(recipe: Recipe, folder: Path, **given: object) -> Placement:
    return place(Settings.model_validate(given), recipe, folder)


def test_without_slurm_trials_run_here(recipe: Recipe, programs: Path, tmp_path: Path) -> None:
    placement = placed(recipe, tmp_path, local={"slots": 3})
    assert (placement.backend, placement.slots, placement.in_flight) == ("local", 3, 6)
    assert "no Slurm" in placement.where.why


def test_a_trial_that_asks_for_more_gpus_than_there_are(
    recipe: Recipe, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources = recipe.spec.resources.model_copy(update={"gpus": 2})
    recipe = replace(recipe, spec=recipe.spec.model_copy(update={"resources": resources}))
    for visible, has in (("", "has none"), ("3", "has 1"), ("3,-1,2", "has 1")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        with pytest.raises(UsageError, match=rf"resources\.gpus .* 2 .* {has};"):
            placed(recipe, tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert placed(recipe, tmp_path).backend == "local"


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ((), 0),
        (("null", "nvidiactl", "nvidia-uvm"), 0),
        (("nvidia0", "nvidia1", "nvidiactl", "dri"), 2),
        (("kfd", "dri"), None),
        (("dxg",), None),
    ],
)
def test_gpus_are_counted_by_their_devices(
    tmp_path: Path, names: tuple[str, ...], found: int | None
) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert gpus.count({}, tmp_path) == found
    assert gpus.count({}, tmp_path / "nowhere") is None


@pytest.mark.parametrize(("says", "backend"), [(UP, "slurm"), (DOWN, "local")])
def test_auto_asks_the_controller(
    recipe: Recipe, programs: Path, tmp_path: Path, says: str, backend: str
) -> None:
    add(programs, "sbatch")
    add(programs, "scontrol", says)
    placement = placed(recipe, tmp_path)
    assert placement.backend == backend
    assert "controller" in placement.where.why


def test_said_local_is_local(recipe: Recipe, programs: Path, tmp_path: Path) -> None:
    add(programs, "sbatch")
    add(programs, "scontrol", UP)
    assert placed(recipe, tmp_path, backend="local").backend == "local"


def test_site_means_slurm(recipe: Recipe, programs: Path, tmp_path: Path) -> None:
    add(programs, "sbatch")
    (tmp_path / "site.toml").write_text('name = "ours"\n[slurm]\naccount = "a"\n')
    placement = placed(recipe, tmp_path, site="site.toml", slurm={"account": "b"})
    assert (placement.backend, placement.site.name) == ("slurm", "ours")
    assert placement.site.slurm.account == "b"


@pytest.mark.parametrize("given", [{"backend": "slurm"}, {"site": "site.toml"}])
def test_slurm_wanted_and_not_there_is_refused(
    recipe: Recipe, programs: Path, tmp_path: Path, given: dict[str, str]
) -> None:
    (tmp_path / "site.toml").write_text("")
    with pytest.raises(UsageError, match=r"no sbatch .*--backend local"):
        placed(recipe, tmp_path, **given)


@pytest.mark.parametrize(("ideas", "in_flight"), [(1, 4), (50, 12), (10_000, 64)])
def test_on_slurm_a_quarter_of_the_ideas_is_in_flight(
    recipe: Recipe, programs: Path, tmp_path: Path, ideas: int, in_flight: int
) -> None:
    add(programs, "sbatch")
    placement = placed(recipe, tmp_path, backend="slurm", ideas=ideas)
    assert placement.in_flight == in_flight
    assert placement.slots == in_flight * recipe.spec.seeds


class TestImage:
    def test_on_slurm_nodes_alone_need_apptainer(
        self, recipe: Recipe, programs: Path, tmp_path: Path
    ) -> None:
        add(programs, "sbatch")
        (tmp_path / "i.sif").write_text("")
        placement = placed(recipe, tmp_path, backend="slurm", image="i.sif")
        assert placement.isolation is Isolation.APPTAINER
        assert placement.image == str(tmp_path / "i.sif")

    def test_here_it_is_needed_here(self, recipe: Recipe, programs: Path, tmp_path: Path) -> None:
        (tmp_path / "i.sif").write_text("")
        with pytest.raises(UsageError, match=r"--image .*no Apptainer"):
            placed(recipe, tmp_path, image="i.sif")
        add(programs, "apptainer")
        assert placed(recipe, tmp_path, image="i.sif").isolation is Isolation.APPTAINER

    def test_none_at_all_is_no_sandbox(
        self, recipe: Recipe, programs: Path, tmp_path: Path
    ) -> None:
        add(programs, "sbatch")
        placement = placed(recipe, tmp_path, backend="slurm")
        assert (placement.isolation, placement.image) == (Isolation.NONE, None)

    def test_missing_one_is_refused(self, recipe: Recipe, programs: Path, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"^--image .*/i\.sif: .*\bcontainers/README\.md"):
            placed(recipe, tmp_path, image="i.sif")


@pytest.mark.parametrize(
    ("slots", "ideas", "requests", "in_flight"),
    [
        (2, 50, 0, 4),  # no models of its own: twice the slots
        (2, 50, 256, 14),  # and a quarter of the ideas is thought of
        (2, 50, 5, 7),  # or as many as the models answer
        (16, 50, 256, 32),
        (1, 4, 1, 4),
        (2, 4000, 256, 258),
        (None, 50, 0, 12),
        (None, 50, 256, 12),
        (None, 4000, 0, 64),
        (None, 4000, 256, 256),
    ],
)
def test_ideas_in_flight_keep_the_models_busy(
    slots: int | None, ideas: int, requests: int, in_flight: int
) -> None:
    assert ideas_in_flight(Settings(ideas=ideas), slots, requests) == in_flight
    given = Settings(ideas=ideas, loop=LoopSettings(ideas_in_flight=3))
    assert ideas_in_flight(given, slots, requests) == 3
