"""Setups: other sizes of the same recipe, complete in a campaign's copy."""

import tomllib
from pathlib import Path

import pytest

from hpcscientist.cli.main import run
from hpcscientist.errors import RecipeError
from hpcscientist.recipe import load
from hpcscientist.recipe.checks.check import check
from hpcscientist.recipe.create import create

SETUPS = """
[setups.large]
seeds = 3
knobs = []

[setups.large.constants]
EPOCHS = 77

[setups.large.prepare]
TRAIN = 4321

[setups.large.budgets.full]
seconds = 500

[setups.large.resources]
gpus = 2
gpu_type = "a100"
"""


@pytest.fixture
def recipe(tmp_path):
    made = create("moons", tmp_path)
    script = made / "reference" / "experiment.py"
    script.write_text(script.read_text() + "\nEPOCHS = 5\n")
    prepare = made / "prepare.py"
    prepare.write_text(prepare.read_text() + "\nTRAIN = 10\n")
    written(made, SETUPS)
    return made


def written(made: Path, more: str) -> None:
    file = made / "recipe.toml"
    file.write_text(file.read_text() + more)


def test_a_setup_replaces_what_it_names_and_leaves_the_rest(recipe):
    plain, large = load.load(recipe), load.load(recipe, "large")
    assert (plain.spec.setup, large.spec.setup) == (None, "large")
    assert (plain.spec.resources.gpus, large.spec.resources.gpus) == (0, 2)
    assert large.spec.budgets.full.seconds == 500
    assert large.spec.budgets.pilot == plain.spec.budgets.pilot
    assert large.spec.resources.memory_mb == plain.spec.resources.memory_mb
    assert large.spec.metrics == plain.spec.metrics
    assert large.spec.knobs == () != plain.spec.knobs
    assert "EPOCHS = 5\n" in plain.reference["experiment.py"]
    assert "EPOCHS = 77\n" in large.reference["experiment.py"]


def test_a_campaign_s_copy_says_it_all(recipe, tmp_path):
    load.copy(recipe, tmp_path / "copy", "large")
    copied = load.load(tmp_path / "copy")
    asked = load.load(recipe, "large")
    assert copied.spec == asked.spec.model_copy(update={"setups": {}})
    assert copied.reference == asked.reference
    assert "TRAIN = 4321\n" in (tmp_path / "copy" / "prepare.py").read_text()
    assert "setups" not in tomllib.loads((tmp_path / "copy" / "recipe.toml").read_text())
    assert "TRAIN = 10\n" in (recipe / "prepare.py").read_text()


def test_a_setup_that_is_none_is_refused_with_those_there_are(recipe, tmp_path):
    for refused in (
        lambda: load.load(recipe, "larg"),
        lambda: load.copy(recipe, tmp_path / "copy", "larg"),
    ):
        with pytest.raises(RecipeError, match="large"):
            refused()
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("[setups.odd.budgets.full]\nseconds = -1\n", 2),
        ("[setups.odd]\nsedes = 4\n", 2),
        ("[setups.odd.constants]\nNOWHERE = 1\n", 2),
        ("[setups.odd.prepare]\nNOWHERE = 1\n", 2),
        ("[setups.odd.resources]\ngpu_type = 'a100'\n", 1),
        ("[setups.odd.data]\nfiles = 'none.txt'\nsource = 'x'\nlicence = 'y'\n", None),
    ],
)
def test_what_is_wrong_in_a_setup_is_found_with_its_line(recipe, more, line):
    assert check(recipe) == []
    before = len((recipe / "recipe.toml").read_text().splitlines())
    written(recipe, more)
    found = check(recipe)
    assert len(found) == 1
    assert found[0].line == (line and before + line)


def test_a_constant_of_a_setup_must_fit_its_knob(recipe):
    knob = '{ name = "EPOCHS", type = "int", low = 1, high = 50 }'
    written(recipe, f"[setups.odd]\nknobs = [{knob}]\nconstants = {{ EPOCHS = 51 }}\n")
    (found,) = check(recipe)
    assert "EPOCHS" in found.message


@pytest.mark.parametrize("more", [["--setup", "none"], ["--data", "here"], ["--full"]])
def test_what_says_how_to_run_goes_with_run(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["recipe", "check", "digits", *more]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--run" in line
