import errno
import os
import stat
from pathlib import Path

import pytest

from hpcscientist.errors import ConfigError, DiskFull, RecipeError
from hpcscientist.recipe import data
from hpcscientist.recipe.create import create
from hpcscientist.recipe.load import load
from hpcscientist.records.trial import Split

SCRIPT = '''"""Write small files."""
import sys
from pathlib import Path
out = Path(sys.argv[sys.argv.index("--out") + 1])
for side, part in [("public", "train"), ("public", "validation"), ("public", "test"),
                   ("private", "validation"), ("private", "test")]:
    (out / side / part).mkdir(parents=True)
    (out / side / part / "x").write_text(f"{side} {part}")
'''


def recipe_with(folder, script=SCRIPT):
    made = folder / "moons" if (folder / "moons").exists() else create("moons", folder)
    (made / "prepare.py").write_text(script)
    return load(made)


def names(folder):
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def roots(tmp_path):
    return tmp_path / "data", tmp_path / "labels"


def test_inputs_and_labels_lie_in_trees_apart(tmp_path, roots):
    prepared = data.prepare(recipe_with(tmp_path), *roots)
    for split in Split:
        view, labels = prepared.views[split], prepared.labels[split]
        assert names(view) == sorted(["train", split.value])
        assert (view / split.value / "x").read_text() == f"public {split.value}"
        assert (labels / "x").read_text() == f"private {split.value}"
        assert stat.S_IMODE(labels.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(roots[1].stat().st_mode) == 0o700
    shown = [p.read_text() for p in roots[0].rglob("*") if p.is_file()]
    assert not any("private" in text for text in shown)
    key = prepared.views[Split.TEST].parent.name
    assert names(roots[0]) == names(roots[1]) == [key]


def test_it_runs_once(tmp_path, roots, monkeypatch):
    recipe = recipe_with(tmp_path)
    first = data.prepare(recipe, *roots)
    monkeypatch.setattr(data, "_run", lambda *_: pytest.fail("ran again"))
    assert data.prepare(recipe, *roots) == first


def test_a_changed_script_makes_new_data(tmp_path, roots):
    first = data.prepare(recipe_with(tmp_path), *roots)
    second = data.prepare(recipe_with(tmp_path, SCRIPT + "# changed\n"), *roots)
    assert first.views != second.views and first.data_hash == second.data_hash


def test_data_changed_on_disk_are_refused(tmp_path, roots):
    recipe = recipe_with(tmp_path)
    file = data.prepare(recipe, *roots).views[Split.VALIDATION] / "train" / "x"
    file.chmod(0o644)
    file.write_text("poisoned")
    with pytest.raises(ConfigError, match=rf"delete {roots[0]}/.* {roots[1]}/"):
        data.prepare(recipe, *roots)


@pytest.mark.parametrize("half", [0, 1])
def test_an_interrupted_preparation_is_made_good(tmp_path, roots, half):
    recipe = recipe_with(tmp_path)
    first = data.prepare(recipe, *roots)
    key = first.views[Split.TEST].parent.name
    roots[half].joinpath(key).rename(tmp_path / "gone")
    other = roots[1 - half] / key / "stale"
    other.write_text("left over")
    assert data.prepare(recipe, *roots) == first
    assert names(roots[0]) == names(roots[1]) == [key]
    assert half == 1 or not (roots[1] / key / "stale").exists()


def test_where_links_fail_files_are_copied(tmp_path, roots, monkeypatch):
    def refuse(self, target):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    prepared = data.prepare(recipe_with(tmp_path), *roots)
    assert (prepared.views[Split.TEST] / "test" / "x").read_text() == "public test"


@pytest.mark.parametrize(("first", "second"), [("a", "a"), ("a", "a/b"), ("a/b", "a")])
def test_roots_that_contain_one_another_are_refused(tmp_path, first, second):
    with pytest.raises(ConfigError, match=r" contain .*paths\.data.*paths\.private"):
        data.prepare(recipe_with(tmp_path), tmp_path / first, tmp_path / second)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        ("raise SystemExit('no\\nnetwork')\n", "exit status 1: network"),
        ("raise SystemExit(4)\n", "exit status 4: .*nothing"),
        ("(out / 'private/test/x').unlink()\n", "nothing .*OUT/private/test"),
        ("(out / 'public/test/l').symlink_to('x')\n", "wrote a link, OUT/public/test/l"),
        (
            "(out / 'public/test/y').write_text('private test')\n",
            "OUT/public/test/y .*OUT/private/test/x",
        ),
    ],
)
def test_faults_of_prepare_are_named_and_nothing_is_left(tmp_path, roots, addition, message):
    with pytest.raises(RecipeError, match=message) as caught:
        data.prepare(recipe_with(tmp_path, SCRIPT + addition), *roots)
    assert caught.value.file is not None and caught.value.file.name == "prepare.py"
    assert "\n" not in str(caught.value)
    assert names(roots[0]) == names(roots[1]) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_and_a_root_that_cannot_be_written(tmp_path, roots, monkeypatch, number):
    recipe = recipe_with(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"Errno.*/file/data.*paths\.data"):
        data.prepare(recipe, tmp_path / "file" / "data", roots[1])

    def full(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(data, "_link_tree", full)
    with pytest.raises(DiskFull):
        data.prepare(recipe, *roots)
    assert names(roots[0]) == names(roots[1]) == []
