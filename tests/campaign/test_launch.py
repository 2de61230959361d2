from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hpcscientist.campaign import launch
from hpcscientist.campaign.launch import LaunchPlan
from hpcscientist.config.settings import Settings
from hpcscientist.errors import RecipeError, UsageError
from hpcscientist.recipe.load import shipped_folder


def plan_of(folder: Path, **given: object) -> LaunchPlan:
    settings = Settings.model_validate({"model": "search", "run_dir": "a/b/run", **given})
    return launch.plan(settings, folder)


def test_plan_touches_nothing(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert plan.trials_at_most == 5 + 20 * 6


def test_undo_removes_what_was_made_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    claimed = launch.claim(plan_of(tmp_path))
    assert claimed.paths.trials.is_dir()
    claimed.undo()
    assert [path.name for path in tmp_path.rglob("*")] == ["a"]


def test_undo_keeps_an_empty_folder_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "run").mkdir(parents=True)
    claimed = launch.claim(plan_of(tmp_path))
    claimed.undo()
    assert list((tmp_path / "a" / "b" / "run").iterdir()) == []


def test_of_two_launches_into_one_folder_one_wins(tmp_path: Path) -> None:
    first, second = plan_of(tmp_path), plan_of(tmp_path)
    claimed = launch.claim(first)
    launch.furnish(first, claimed)
    before = sorted(claimed.paths.root.rglob("*"))
    with pytest.raises(UsageError, match="is not empty"):
        launch.claim(second)
    assert sorted(claimed.paths.root.rglob("*")) == before


def test_folder_that_was_filled_meanwhile_is_left_alone(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    plan.run_dir.mkdir(parents=True)
    (plan.run_dir / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        launch.claim(plan)
    assert [path.name for path in plan.run_dir.iterdir()] == ["thesis.tex"]


def test_failed_preparation_leaves_nothing(tmp_path: Path) -> None:
    recipe = tmp_path / "digits"
    shutil.copytree(shipped_folder() / "digits", recipe)
    (recipe / "prepare.py").write_text("FLAG = '--out'\nraise SystemExit('no data')\n")
    plan = plan_of(tmp_path, recipe=str(recipe))
    claimed = launch.claim(plan)
    with pytest.raises(RecipeError, match="no data"):
        launch.furnish(plan, claimed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits"]


def test_run_directory_does_not_tell_where_the_labels_lie(tmp_path: Path, own_home: Path) -> None:
    plan = plan_of(tmp_path)
    claimed = launch.claim(plan)
    launch.furnish(plan, claimed)
    sealed = str(own_home / ".local" / "state")
    assert (own_home / ".local" / "state" / "hpcscientist" / "sealed").is_dir()
    files = [path for path in claimed.paths.root.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if sealed.encode() in path.read_bytes()]


class TestQuickstartRecipe:
    """Its own playbook is trusted where it is the shipped one, to the letter."""

    def test_copy_in_a_clone_is_the_shipped_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copytree(shipped_folder() / "digits", tmp_path / "recipes" / "digits")
        monkeypatch.chdir(tmp_path)
        plan = launch.plan(Settings(run_dir="run"), tmp_path)
        assert plan.recipe.folder.samefile("recipes/digits")
        assert (plan.model_spec, plan.model_assumed) == ("playbook", True)

    def test_changed_copy_is_somebody_s_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copytree(shipped_folder() / "digits", tmp_path / "recipes" / "digits")
        with (tmp_path / "recipes" / "digits" / "playbook.jsonl").open("a") as file:
            file.write("\n")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UsageError, match="needs a model"):
            launch.plan(Settings(run_dir="run"), tmp_path)
        with pytest.raises(UsageError, match="--allow-unsandboxed"):
            launch.plan(Settings(run_dir="run", model="playbook"), tmp_path)
