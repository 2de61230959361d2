from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
import tomli_w

from hpcscientist.config.settings import Settings
from hpcscientist.errors import RecipeError, UsageError
from hpcscientist.files.trusted import TrustedCopy
from hpcscientist.history import frozen
from hpcscientist.launching import create_run_dir, launch
from hpcscientist.launching.launch_plan import LaunchPlan
from hpcscientist.recipe.create import create
from hpcscientist.recipe.load import shipped_folder


def checked_of(folder: Path, **given: object) -> LaunchPlan:
    settings = Settings.model_validate(
        {"backend": "local", "model": "search", "run_dir": "a/b/run", **given}
    )
    return launch.check(settings, folder)


def test_plan_touches_nothing(tmp_path: Path) -> None:
    checked = checked_of(tmp_path)
    assert list(tmp_path.iterdir()) == []
    # All of them confirmed, and the baseline twice more.
    assert checked.trials_at_most == 6 + 20 * 6 + 21 * 5 + 2


def test_undo_removes_what_was_made_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    claimed = create_run_dir.claim(checked_of(tmp_path))
    assert claimed.paths.trials.is_dir()
    claimed.undo()
    assert [path.name for path in tmp_path.rglob("*")] == ["a"]


def test_nobody_else_reaches_what_candidates_write(tmp_path: Path) -> None:
    claimed = create_run_dir.claim(checked_of(tmp_path))
    assert claimed.paths.trials.stat().st_mode & 0o777 == 0o700


def test_undo_keeps_an_empty_folder_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "run").mkdir(parents=True)
    claimed = create_run_dir.claim(checked_of(tmp_path))
    claimed.undo()
    assert list((tmp_path / "a" / "b" / "run").iterdir()) == []


def test_of_two_launches_into_one_folder_one_wins(tmp_path: Path) -> None:
    first, second = checked_of(tmp_path), checked_of(tmp_path)
    claimed = create_run_dir.claim(first)
    create_run_dir.furnish(first, claimed)
    before = sorted(claimed.paths.root.rglob("*"))
    with pytest.raises(UsageError, match=r": .*not empty; .*--run-dir"):
        create_run_dir.claim(second)
    assert sorted(claimed.paths.root.rglob("*")) == before


def test_folder_that_was_filled_meanwhile_is_left_alone(tmp_path: Path) -> None:
    checked = checked_of(tmp_path)
    checked.run_dir.mkdir(parents=True)
    (checked.run_dir / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match=r": .*not empty; .*--run-dir"):
        create_run_dir.claim(checked)
    assert [path.name for path in checked.run_dir.iterdir()] == ["thesis.tex"]


def test_failed_preparation_leaves_nothing(tmp_path: Path) -> None:
    recipe = tmp_path / "digits"
    shutil.copytree(shipped_folder() / "digits", recipe)
    (recipe / "prepare.py").write_text("FLAG = '--out'\nraise SystemExit('no data')\n")
    checked = checked_of(tmp_path, recipe=str(recipe))
    claimed = create_run_dir.claim(checked)
    with pytest.raises(RecipeError, match="no data"):
        create_run_dir.furnish(checked, claimed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits"]


def test_run_directory_does_not_tell_where_the_labels_lie(tmp_path: Path, own_home: Path) -> None:
    checked = checked_of(tmp_path)
    claimed = create_run_dir.claim(checked)
    create_run_dir.furnish(checked, claimed)
    sealed = str(own_home / ".local" / "state")
    assert (own_home / ".local" / "state" / "hpcscientist" / "sealed").is_dir()
    files = [path for path in claimed.paths.root.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if sealed.encode() in path.read_bytes()]


ROLES = ("ideation", "code", "review")


def test_roles_are_frozen_with_the_playbooks_they_replay(tmp_path: Path) -> None:
    own = tmp_path / "mine.jsonl"
    shutil.copyfile(shipped_folder() / "digits" / "playbook.jsonl", own)
    given = {"model": "playbook", "code": {"model": f"playbook:{own}"}, "allow_unsandboxed": True}
    checked = checked_of(tmp_path, **given)
    assert checked.role_specs == dict.fromkeys(ROLES, "playbook") | {"code": f"playbook:{own}"}
    assert checked.model_name == "playbook:playbook.jsonl, playbook:mine.jsonl"
    assert checked.is_paid is False
    claimed = create_run_dir.claim(checked)
    create_run_dir.furnish(checked, claimed)
    own.unlink()
    config = frozen.read(claimed.paths)
    copy = claimed.paths.root / "playbook-code.jsonl"
    assert config.role_specs == dict.fromkeys(ROLES, "playbook") | {"code": f"playbook:{copy}"}
    assert config.model_spec == "playbook"
    assert copy.is_file()


def test_a_roles_own_playbook_is_not_the_trusted_one(tmp_path: Path) -> None:
    own = tmp_path / "mine.jsonl"
    shutil.copyfile(shipped_folder() / "digits" / "playbook.jsonl", own)
    with pytest.raises(UsageError, match="allow-unsandboxed"):
        checked_of(tmp_path, model="playbook", code={"model": f"playbook:{own}"})


def test_a_bad_model_of_a_role_is_refused_by_its_key(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^review\.model: 'playbok' "):
        checked_of(tmp_path, model="playbook", review={"model": "playbok"})
    assert list(tmp_path.iterdir()) == []


def test_the_control_arm_asks_none_of_the_roles_models(tmp_path: Path) -> None:
    checked = checked_of(tmp_path, code={"model": "http://127.0.0.1:1/v1#nobody"})
    assert (checked.role_specs, checked.model_name, checked.is_paid) == ({}, "search", False)


def test_campaigns_of_earlier_versions_have_one_model_for_all(tmp_path: Path) -> None:
    checked = checked_of(tmp_path, model="playbook", recipe="digits", allow_unsandboxed=True)
    claimed = create_run_dir.claim(checked)
    create_run_dir.furnish(checked, claimed)
    path = claimed.paths.campaign
    data = tomllib.loads(path.read_text())
    del data["role_specs"]
    TrustedCopy.of(claimed.paths.root, data["campaign_id"]).remove()  # they made none
    path.write_text(tomli_w.dumps(data))
    assert frozen.read(claimed.paths).role_specs == {}


class TestQuickstartRecipe:
    """Its own playbook is trusted where it is the shipped one, to the letter."""

    def test_copy_in_a_clone_is_the_shipped_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copytree(shipped_folder() / "digits", tmp_path / "recipes" / "digits")
        monkeypatch.chdir(tmp_path)
        checked = launch.check(Settings(backend="local", run_dir="run"), tmp_path)
        assert checked.recipe.folder.samefile("recipes/digits")
        assert (checked.model_spec, checked.model_assumed) == ("playbook", True)

    def test_changed_copy_is_somebody_s_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copytree(shipped_folder() / "digits", tmp_path / "recipes" / "digits")
        with (tmp_path / "recipes" / "digits" / "playbook.jsonl").open("a") as file:
            file.write("\n")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UsageError, match=r"'digits' .*--model http://HOST:PORT/v1#NAME"):
            launch.check(Settings(backend="local", run_dir="run"), tmp_path)
        with pytest.raises(UsageError, match="--allow-unsandboxed"):
            launch.check(Settings(backend="local", run_dir="run", model="playbook"), tmp_path)


def test_one_seed_would_confirm_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="confirm_seeds = 1"):
        checked_of(tmp_path, loop={"confirm_seeds": 1})
    assert checked_of(tmp_path, loop={"confirm_seeds": 1, "confirm": False}).confirm_seeds == 0


def test_a_link_that_leads_nowhere_is_no_run_directory(tmp_path: Path) -> None:
    """A dry run passed it, and the launch could not make it."""
    (tmp_path / "run").symlink_to("nowhere")
    with pytest.raises(UsageError, match=r"/run: .*\bfolder; .*--run-dir"):
        checked_of(tmp_path, run_dir="run")


def test_a_setup_and_the_user_s_files_are_what_a_campaign_keeps(tmp_path: Path) -> None:
    """And where those files lie is not told: their labels lie with them."""
    recipe, given = create("moons", tmp_path), tmp_path / "given"
    given.mkdir()
    (given / "a.txt").write_text("alpha")
    (recipe / "list.txt").write_text("-  a.txt\n")
    for script in (recipe / "prepare.py", recipe / "reference" / "experiment.py"):
        script.write_text(script.read_text() + "\nSIZE = 1\n")
    data = '[setups.large.data]\nfiles = "list.txt"\nsource = "S"\nlicence = "L"\n'
    constants = "[setups.large]\nseeds = 7\nconstants = { SIZE = 2 }\nprepare = { SIZE = 3 }\n"
    file = recipe / "recipe.toml"
    file.write_text(f"{file.read_text()}\n{constants}{data}")
    prepare = recipe / "prepare.py"
    text = prepare.read_text().replace('"--out"', '"--data")\n    parser.add_argument("--out"', 1)
    prepare.write_text(text)
    checked = checked_of(tmp_path, recipe=str(recipe), setup="large", data="given")
    assert checked.recipe.spec.seeds == 7
    claimed = create_run_dir.claim(checked)
    create_run_dir.furnish(checked, claimed)
    kept = claimed.paths.recipe
    assert "SIZE = 2" in (kept / "reference" / "experiment.py").read_text()
    assert "SIZE = 3" in (kept / "prepare.py").read_text()
    config = frozen.read(claimed.paths)
    assert (config.settings.setup, config.settings.data) == ("large", "")
    files = [path for path in claimed.paths.root.rglob("*") if path.is_file()]
    assert not [path for path in files if str(given).encode() in path.read_bytes()]
    with pytest.raises(RecipeError, match="large"):
        checked_of(tmp_path, recipe=str(recipe), setup="larger")
