"""The recipe of a launch is read from its copy, whatever becomes of the run directory's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files import vault
from hpcscientist.files.hashing import hash_tree
from hpcscientist.recipe.create import create
from hpcscientist.recipe.folder_copy import FolderCopy, LaunchedRecipe, data_copy


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(vault.ROOT_VARIABLE, str(tmp_path / "root"))
    return create("moons", tmp_path)


@pytest.fixture
def launched(shown: Path) -> LaunchedRecipe:
    launched = LaunchedRecipe(shown, hash_tree(shown))
    launched.keep()
    return launched


@pytest.mark.parametrize("content", ["", "null", "[]", "3", '{"a": [}', "[" * 99_999, "\udcff"])
def test_a_damaged_list_of_hashes_is_no_copy(launched: LaunchedRecipe, content: str) -> None:
    (launched.copy.place / "hashes.json").write_bytes(os.fsencode(content))
    assert launched.copy.kept() == {}
    assert launched.copy.changed() == []
    assert launched.load().spec.name == "moons"


def test_it_is_read_from_its_copy(launched: LaunchedRecipe) -> None:
    before = launched.load()
    assert vault.told(before.scorer) == f"trusted/recipes/{launched.recipe_hash}/files/score.py"
    (launched.shown / "score.py").write_text("print(1)")
    (launched.shown / "reference" / "experiment.py").unlink()
    after = launched.load()
    assert (after.spec, after.reference) == (before.spec, before.reference)
    assert after.scorer_hash == before.scorer_hash
    shutil.rmtree(launched.shown)
    assert launched.load().reference == before.reference


def test_what_was_changed_is_named_and_restored(launched: LaunchedRecipe) -> None:
    assert launched.copy.changed() == []
    (launched.shown / "score.py").write_text("print(1)")
    (launched.shown / "planted.py").write_text("")
    (launched.shown / "reference" / "experiment.py").unlink()
    assert launched.copy.changed() == ["planted.py", "reference/experiment.py", "score.py"]
    shutil.rmtree(launched.shown)
    launched.copy.restore(launched.copy.kept())
    assert launched.copy.changed() == []
    assert hash_tree(launched.shown) == launched.recipe_hash


def test_a_file_that_has_no_end_is_not_read(launched: LaunchedRecipe) -> None:
    with (launched.shown / "score.py").open("wb") as file:
        file.truncate(2**42)
    assert launched.copy.changed() == ["score.py"]


def test_caches_beside_what_is_trusted_are_not_copied(shown: Path) -> None:
    (shown / "__pycache__").mkdir()
    (shown / "__pycache__" / "helper.cpython-311.pyc").write_bytes(b"x")
    launched = LaunchedRecipe(shown, hash_tree(shown))
    launched.keep()
    assert not (launched.load().folder / "__pycache__").exists()


def test_an_image_is_not_copied_and_all_else_is(shown: Path) -> None:
    text = (shown / "recipe.toml").read_text()
    (shown / "recipe.toml").write_text(text.replace("[topic]", 'image = "x.sif"\n[topic]', 1))
    (shown / "x.sif").write_bytes(b"image")
    launched = LaunchedRecipe(shown, hash_tree(shown))
    launched.keep()
    assert not (launched.load().folder / "x.sif").exists()
    assert launched.load().spec.image == "x.sif"
    (shown / "x.sif").write_bytes(b"another")
    assert launched.copy.changed() == []
    (shown / "prepare.py").write_text("")
    assert launched.copy.changed() == ["prepare.py"]


def test_without_a_copy_only_the_recipe_of_the_launch_counts(shown: Path) -> None:
    launched = LaunchedRecipe(shown, hash_tree(shown))
    assert launched.load().folder == shown
    assert launched.copy.changed() == []
    (shown / "score.py").write_text("print(1)")
    launched.keep()
    assert not launched.copy.place.exists()
    with pytest.raises(RunDirectoryError, match=f"{shown}: .*launch"):
        launched.load()


@pytest.mark.parametrize("lost", ["score.py", "playbook.jsonl", "seed_ideas.json", "prepare.py"])
@pytest.mark.parametrize("is_link", [False, True])
def test_a_copy_that_lost_one_file_is_none(
    launched: LaunchedRecipe, lost: str, is_link: bool
) -> None:
    before = launched.load()
    (launched.copy.files / lost).unlink()
    if is_link:
        (launched.copy.files / lost).symlink_to(lost)
    assert launched.copy.kept() == {}
    after = launched.load()
    assert (after.folder, after.seed_ideas) == (launched.shown, before.seed_ideas)
    launched.keep()  # by the next campaign with this recipe
    assert launched.load().folder == launched.copy.files


def test_half_a_copy_is_none(launched: LaunchedRecipe) -> None:
    (launched.load().folder / "score.py").unlink()
    (launched.copy.files / "prepare.py").write_text("")
    assert launched.load().folder == launched.shown
    launched.keep()
    assert launched.load().folder != launched.shown


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderCopy:
    """Prepared data of two splits, of which there is a copy."""
    monkeypatch.setenv(vault.ROOT_VARIABLE, str(tmp_path / "root"))
    public = tmp_path / "data"
    for split in ("validation", "test"):
        (public / split / "train").mkdir(parents=True)
        (public / split / "train" / "x.csv").write_text("1,2")
        (public / split / "x.csv").write_text(split)
    copy = data_copy(public / "validation", f"{hash_tree(public)[:16]}-of-labels")
    copy.keep()
    return copy


def link_away(path: Path) -> None:
    path.rename(path.with_name("mine"))
    path.symlink_to("mine")


@pytest.mark.parametrize(
    ("change", "file"),
    [
        (lambda path: path.write_text("3,4"), "x.csv"),
        (lambda path: path.unlink(), "x.csv"),
        (lambda path: (path.unlink(), path.mkdir()), "x.csv"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "x.csv"),
        (link_away, "x.csv"),
        (lambda path: link_away(path.parent), "train/x.csv"),
        (lambda path: (shutil.rmtree(path.parent), path.parent.write_text("")), "train/x.csv"),
        (lambda path: shutil.rmtree(path.parents[1]), "train/x.csv"),
        (lambda path: path.with_name("planted.csv").write_text("1"), "x.csv"),
        (lambda path: os.truncate(path, 2**42), "x.csv"),
    ],
)
def test_data_are_as_they_were_whatever_is_in_their_place(
    change: Callable[[Path], object], file: str, data: FolderCopy
) -> None:
    assert data.changed() == []
    change(data.shown / "validation" / file)
    changed = data.changed()
    assert changed
    data.restore(changed)
    assert data.changed() == []
    assert hash_tree(data.shown).startswith(data.known)
    assert (data.shown / "validation" / file).read_text() in ("1,2", "validation")


def test_a_copy_of_data_that_lacks_a_file_is_none(data: FolderCopy) -> None:
    (data.files / "test" / "x.csv").unlink()
    (data.shown / "test" / "x.csv").write_text("")
    assert data.changed() == []


def test_large_data_are_not_copied(data: FolderCopy) -> None:
    shutil.rmtree(data.place)
    replace(data, most=8).keep()
    assert data.kept() == {}
