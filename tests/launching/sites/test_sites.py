"""The places where trials run: what each says of itself, and which one is chosen."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from programs_kit import add

from hpcscientist.config.settings import PathSettings, Settings
from hpcscientist.errors import UsageError
from hpcscientist.execution.backends.local import LocalBackend
from hpcscientist.execution.backends.slurm.backend import SlurmBackend
from hpcscientist.files.rundir import RunPaths
from hpcscientist.launching.sites import choosing, machine
from hpcscientist.launching.sites.choosing import place
from hpcscientist.launching.sites.cluster import Cluster
from hpcscientist.launching.sites.machine import ThisMachine
from hpcscientist.launching.sites.site import Home, TrialSite
from hpcscientist.ports import Backend
from hpcscientist.recipe.load import Recipe
from hpcscientist.recipe.schema import RecipeSpec, Resources
from hpcscientist.records.site import BackendKind, Site
from hpcscientist.records.trial import Isolation

HERE, CLUSTER = ThisMachine("for a test", Site()), Cluster("for a test", Site())
SITES: list[TrialSite] = [HERE, CLUSTER]
BACKENDS: dict[BackendKind, type[Backend]] = {"local": LocalBackend, "slurm": SlurmBackend}


def asking(recipe: Recipe, **asked: int) -> RecipeSpec:
    resources = Resources.model_validate({**recipe.spec.resources.model_dump(), **asked})
    return recipe.spec.model_copy(update={"resources": resources})


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.kind)
async def test_it_opens_the_backend_of_its_kind(site: TrialSite, tmp_path: Path) -> None:
    backend = site.open(RunPaths(tmp_path / "run"), "digits-0", 3)
    try:
        assert type(backend) is BACKENDS[site.kind]
        assert backend.outlives_driver == (site.kind == "slurm")
        assert not await backend.adopt([])
    finally:
        await backend.close()


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.kind)
def test_a_recipe_that_asks_for_what_there_is_has_nothing_to_be_told(
    site: TrialSite, recipe: Recipe
) -> None:
    assert list(site.check(asking(recipe, cpus=1, memory_mb=64, gpus=0))) == []


def test_this_machine_tells_of_cores_and_memory_that_it_lacks(recipe: Recipe) -> None:
    cores, memory = len(os.sched_getaffinity(0)), machine.memory_mb()
    here = ThisMachine("for a test", Site())
    (cpus,) = here.check(asking(recipe, cpus=cores + 1, memory_mb=64))
    assert f"{cores + 1} CPUs" in cpus
    assert f"has {cores} for it" in cpus
    (more,) = here.check(asking(recipe, cpus=1, memory_mb=int(memory) + 2))
    assert "runs alone" in more
    assert all("less in recipe.toml" in said for said in (cpus, more))
    assert here.slots(asking(recipe, cpus=cores + 1)) == 1
    assert here.slots(asking(recipe, cpus=1)) == cores
    assert ThisMachine("for a test", Site(), most=7).slots(recipe.spec) == 7


def test_a_launch_keeps_what_people_should_know(
    recipe: Recipe, tmp_path: Path, programs: Path
) -> None:
    asked = replace(recipe, spec=asking(recipe, cpus=4096))
    (note,) = place(Settings(), asked, tmp_path).notes
    assert "4096 CPUs" in note


def test_a_rerun_needs_what_its_isolation_takes(programs: Path) -> None:
    HERE.require(Isolation.NONE)
    with pytest.raises(UsageError, match="no Apptainer"):
        HERE.require(Isolation.APPTAINER)
    with pytest.raises(UsageError, match="no sbatch"):
        CLUSTER.require(Isolation.NONE)
    add(programs, "apptainer")
    HERE.require(Isolation.APPTAINER)
    add(programs, "sbatch")
    CLUSTER.require(Isolation.APPTAINER)


def test_a_cluster_alone_contains_what_this_machine_could_not(
    programs: Path, tmp_path: Path
) -> None:
    (tmp_path / "i.sif").write_text("")
    found = [site.isolation(str(tmp_path / "i.sif")) for site in (HERE, CLUSTER)]
    assert found == [Isolation.NONE, Isolation.APPTAINER]
    assert {site.isolation(None) for site in SITES} == {Isolation.NONE}


def test_a_home_is_where_settings_say(tmp_path: Path) -> None:
    paths = PathSettings(data=str(tmp_path / "d"), private=str(tmp_path / "p"))
    home = Home.of(Settings(paths=paths))
    assert (home.data, home.labels) == (tmp_path / "d", tmp_path / "p")
    assert Path(home.python).exists()


def test_what_is_wanted_decides_and_not_the_machine(tmp_path: Path, programs: Path) -> None:
    add(programs, "sbatch")
    assert choosing.choose(Settings(backend="local"), tmp_path).kind == "local"
    assert choosing.choose(Settings(backend="slurm"), tmp_path).kind == "slurm"
    assert choosing.choose(Settings(), tmp_path).kind == "local"  # no controller answers
