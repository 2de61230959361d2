import os
import shutil
from pathlib import Path

import pytest

from hpcscientist.errors import RecipeError
from hpcscientist.files.hashing import hash_tree
from hpcscientist.recipe import load
from hpcscientist.recipe.create import create

DIGITS = load.shipped_folder() / "digits"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_shipped_recipe_is_found_from_anywhere(here):
    assert load.find("digits").samefile(DIGITS)
    assert load.is_shipped(load.find("digits"))


def test_a_recipe_of_the_working_directory_hides_the_shipped_one(here):
    shutil.copytree(DIGITS, here / "recipes" / "digits")
    assert load.find("digits") == Path("recipes/digits")
    assert load.is_shipped(load.find("digits"))  # the same to the letter
    (here / "recipes" / "digits" / "score.py").write_text("print('{}')\n")
    assert not load.is_shipped(load.find("digits"))
    found = {p.name: p for p in load.available()}
    assert found["digits"] == Path("recipes/digits")
    assert found.keys() == load.SHIPPED


def test_folders_are_found_by_path_and_by_plain_name(here):
    made = create("moons", here)
    assert load.find("./moons").samefile(made)
    assert load.find("moons").samefile(made)
    assert load.find("moons/recipe.toml").samefile(made)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digit", "mean 'digits'"),
        ("zzz", "known: char-lm, "),
        ("", "known: char-lm, "),
        ("./nowhere", "nowhere .*exist"),
        ("/", r"no recipe\.toml"),
    ],
)
def test_an_unknown_recipe_names_the_fix(here, name, message):
    with pytest.raises(RecipeError, match=message) as caught:
        load.find(name)
    assert "\n" not in str(caught.value)


def test_load_reads_everything(here):
    recipe = load.load(DIGITS)
    assert recipe.spec.primary.name == "accuracy"
    assert set(recipe.reference) == {"experiment.py"}
    assert len(recipe.seed_ideas) == 2
    assert recipe.playbook == recipe.folder / "playbook.jsonl"
    assert recipe.scorer.is_file() and recipe.prepare.is_file()
    assert recipe.recipe_hash == hash_tree(DIGITS)


def test_load_refuses_what_rules_out_a_campaign(here):
    folder = create("moons", here)
    file = folder / "recipe.toml"
    text = file.read_text()
    file.write_text(text.replace("seeds = 5", 'seeds = "five"'))
    with pytest.raises(RecipeError) as caught:
        load.load(folder)
    assert (caught.value.file, caught.value.line) == (file, 4)
    file.write_text(text)
    (folder / "seed_ideas.json").write_text("[{}]")
    with pytest.raises(RecipeError, match=r"seed_ideas\.json:1"):
        load.load(folder)
    (folder / "seed_ideas.json").unlink()
    (folder / "playbook.jsonl").unlink()
    assert load.load(folder).seed_ideas == ()
    assert load.load(folder).playbook is None
    (folder / "score.py").unlink()
    with pytest.raises(RecipeError, match=r"score\.py: .*missing"):
        load.load(folder)
    with pytest.raises(RecipeError, match=r"recipe\.toml: .*missing"):
        load.load(here)


def test_what_a_campaign_keeps_of_a_recipe(here):
    folder = create("own", here)
    (folder / "library").mkdir()
    (folder / "library" / "references.bib").touch()
    load.copy(folder, here / "kept")
    assert not (here / "kept" / "library").exists()
    assert hash_tree(here / "kept" / "reference") == hash_tree(folder / "reference")
    os.mkfifo(folder / "pipe.csv")
    with pytest.raises(RecipeError, match=r"pipe\.csv: is a pipe"):
        load.copy(folder, here / "not-kept")
