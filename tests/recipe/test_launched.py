"""The recipe of a launch is read from its copy, whatever becomes of the run directory's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files import trusted, vault
from hpcscientist.files.hashing import hash_tree
from hpcscientist.recipe.create import create
from hpcscientist.recipe.launched import LaunchedRecipe


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(vault.ROOT_VARIABLE, str(tmp_path / "root"))
    return create("moons", tmp_path)


@pytest.fixture
def launched(shown: Path) -> LaunchedRecipe:
    launched = LaunchedRecipe(shown, hash_tree(shown))
    launched.keep()
    return launched


def test_it_is_read_from_its_copy(launched: LaunchedRecipe) -> None:
    before = launched.load()
    assert vault.told(before.scorer) == f"trusted/recipes/{launched.recipe_hash}/recipe/score.py"
    (launched.shown / "score.py").write_text("print(1)")
    (launched.shown / "reference" / "experiment.py").unlink()
    after = launched.load()
    assert (after.spec, after.reference) == (before.spec, before.reference)
    assert after.scorer_hash == before.scorer_hash
    shutil.rmtree(launched.shown)
    assert launched.load().reference == before.reference


def test_what_was_changed_is_named_and_restored(launched: LaunchedRecipe) -> None:
    assert launched.changed() == []
    (launched.shown / "score.py").write_text("print(1)")
    (launched.shown / "planted.py").write_text("")
    (launched.shown / "reference" / "experiment.py").unlink()
    assert launched.changed() == ["planted.py", "reference/experiment.py", "score.py"]
    shutil.rmtree(launched.shown)
    launched.restore()
    assert launched.changed() == []
    assert hash_tree(launched.shown) == launched.recipe_hash


def test_a_file_that_has_no_end_is_not_read(launched: LaunchedRecipe) -> None:
    with (launched.shown / "score.py").open("wb") as file:
        file.truncate(2**42)
    assert launched.changed() == ["score.py"]


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
    assert launched.changed() == []
    (shown / "prepare.py").write_text("")
    assert launched.changed() == ["prepare.py"]


def test_without_a_copy_only_the_recipe_of_the_launch_counts(shown: Path) -> None:
    launched = LaunchedRecipe(shown, hash_tree(shown))
    assert launched.load().folder == shown
    assert launched.changed() == []
    (shown / "score.py").write_text("print(1)")
    launched.keep()
    assert not trusted.recipe_folder(launched.recipe_hash).exists()
    with pytest.raises(RunDirectoryError, match="was changed since launch"):
        launched.load()


def test_half_a_copy_is_none(launched: LaunchedRecipe) -> None:
    (launched.load().folder / "score.py").unlink()
    (trusted.recipe_folder(launched.recipe_hash) / "recipe" / "prepare.py").write_text("")
    assert launched.load().folder == launched.shown
    launched.keep()
    assert launched.load().folder != launched.shown
