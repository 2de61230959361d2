"""Files that the user gives by --data: listed by the recipe, compared, and read by prepare.py."""

import hashlib

import pytest

from hpcscientist.errors import RecipeError, UsageError
from hpcscientist.recipe import data, given
from hpcscientist.recipe.create import create
from hpcscientist.recipe.load import load
from hpcscientist.records.trial import Split

SCRIPT = '''"""Write what the user gave."""
import argparse
from pathlib import Path
parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path)
parser.add_argument("--data", type=Path)
args = parser.parse_args()
text = (args.data / "sub" / "a.txt").read_text() if args.data else "made"
for side, part in [("public", "train"), ("public", "validation"), ("public", "test"),
                   ("private", "validation"), ("private", "test")]:
    (args.out / side / part).mkdir(parents=True)
    (args.out / side / part / "x").write_text(f"{side} {text}")
'''


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "given"
    (made / "sub").mkdir(parents=True)
    (made / "sub" / "a.txt").write_text("alpha")
    (made / "b.txt").write_text("beta")
    return made


def recipe_with(tmp_path, required="false", listed=None):
    made = create("moons", tmp_path)
    (made / "prepare.py").write_text(SCRIPT)
    own = hashlib.sha256(b"alpha").hexdigest()
    (made / "list.txt").write_text(listed or f"# comment\n{own}  sub/a.txt\n")
    table = f'\n[data]\nfiles = "list.txt"\nsource = "S"\nlicence = "L"\nrequired = {required}\n'
    (made / "recipe.toml").write_text((made / "recipe.toml").read_text() + table)
    return load(made)


def shown(prepared):
    return (prepared.views[Split.TEST] / "test" / "x").read_text()


def test_prepare_reads_the_folder_and_other_content_is_prepared_apart(tmp_path, folder):
    recipe = recipe_with(tmp_path, listed="-  sub/a.txt\n")
    roots = tmp_path / "data", tmp_path / "labels"
    assert shown(data.prepare(recipe, *roots)) == "public made"
    first = data.prepare(recipe, *roots, folder)
    assert shown(first) == "public alpha"
    (folder / "b.txt").write_text("it is not listed")
    assert data.prepare(recipe, *roots, folder).views == first.views
    (folder / "sub" / "a.txt").write_text("gamma")
    second = data.prepare(recipe, *roots, folder)
    assert shown(second) == "public gamma"
    assert second.data_hash != first.data_hash


@pytest.mark.parametrize("kind", ["md5", "sha1", "sha256"])
def test_sums_of_each_kind_are_compared(kind, folder, tmp_path):
    path = tmp_path / "list"
    path.write_text(f"{hashlib.new(kind, b'beta').hexdigest()}  b.txt\n")
    assert given.content_of(folder, given.read_list(path))
    (folder / "b.txt").write_text("Beta")
    with pytest.raises(UsageError, match=r"b\.txt"):
        given.content_of(folder, given.read_list(path))


def test_a_file_or_folder_that_is_missing_is_named(folder, tmp_path):
    path = tmp_path / "list"
    path.write_text("-  sub/a.txt\n-  c.txt\n")
    with pytest.raises(UsageError, match=r"c\.txt"):
        given.content_of(folder, given.read_list(path))
    with pytest.raises(UsageError, match="nowhere"):
        given.content_of(tmp_path / "nowhere", given.read_list(path))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("abc  x\n", 1),
        ("-  x\n-  ../x\n", 2),
        ("-  /etc/passwd\n", 1),
        ("x\n", 1),
    ],
)
def test_a_list_that_is_wrong_is_refused_with_its_line(tmp_path, text, line):
    path = tmp_path / "list"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        given.read_list(path)
    assert caught.value.line == line


def test_a_recipe_that_needs_files_names_where_to_get_them(tmp_path, folder):
    roots = tmp_path / "data", tmp_path / "labels"
    with pytest.raises(UsageError, match="--data FOLDER"):
        data.prepare(recipe_with(tmp_path, required="true"), *roots)


def test_a_recipe_without_list_takes_no_folder(tmp_path, folder):
    roots = tmp_path / "data", tmp_path / "labels"
    with pytest.raises(UsageError, match="leave --data out"):
        data.prepare(load(create("moons", tmp_path)), *roots, folder)
