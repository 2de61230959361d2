import json
import subprocess
import sys

import pytest

from hpcscientist.errors import RecipeError
from hpcscientist.recipe.checks.check import check
from hpcscientist.recipe.create import create
from hpcscientist.recipe.data import prepare
from hpcscientist.recipe.load import load
from hpcscientist.records.trial import Split


def python(script, arguments):
    command = [sys.executable, str(script), *arguments.split()]
    return subprocess.run(command, check=True, capture_output=True).stdout


def test_a_new_recipe_passes_check_and_runs(tmp_path):
    folder = create("my-topic", tmp_path / "recipes")
    assert folder == tmp_path / "recipes" / "my-topic"
    assert check(folder) == []
    recipe = load(folder)
    assert recipe.spec.name == "my-topic"
    assert recipe.playbook is not None and recipe.seed_ideas and recipe.spec.knobs
    prepared = prepare(recipe, tmp_path / "data", tmp_path / "labels")
    for split in Split:
        out = tmp_path / split.value
        out.mkdir()
        arguments = f"--data {prepared.views[split]} --out {out} --seed 1 --budget full"
        python(folder / "reference/experiment.py", f"{arguments} --split {split.value}")
        arguments = f"--predictions {out}/predictions.csv --labels {prepared.labels[split]}"
        printed = python(recipe.scorer, arguments)
        assert 0.7 < json.loads(printed)["accuracy"] < 0.95


def test_its_playbook_fits_its_reference(tmp_path):
    recipe = load(create("moons", tmp_path))
    assert recipe.playbook is not None
    for line in recipe.playbook.read_text().splitlines():
        for edit in json.loads(line)["reply"].get("edits", []):
            assert recipe.reference[edit["file"]].count(edit["search"]) == 1


@pytest.mark.parametrize("name", ["", "Upper", "1st", "a b", "../x", "a/b", "x" * 65, "ä"])
def test_bad_names_are_refused(tmp_path, name):
    with pytest.raises(RecipeError, match="cannot name a recipe"):
        create(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_left_alone(tmp_path):
    (tmp_path / "moons").mkdir()
    with pytest.raises(RecipeError, match="exists already"):
        create("moons", tmp_path)
    assert list(tmp_path.rglob("*")) == [tmp_path / "moons"]


def test_nothing_half_made_is_left(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hpcscientist.recipe.create._write", fail)
    with pytest.raises(RecipeError, match=r"/moons .*No space"):
        create("moons", tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecipeError, match=r"file/moons .*written"):
        create("moons", tmp_path / "file")
