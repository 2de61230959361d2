"""A recipe holds regular files of a bounded size: all else is refused by name, never followed."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcscientist.errors import RecipeError
from hpcscientist.files.handed import read_regular
from hpcscientist.files.hashing import hash_tree
from hpcscientist.recipe import load
from hpcscientist.recipe.checks import tree
from hpcscientist.recipe.checks.check import check
from hpcscientist.recipe.create import create


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return create("moons", tmp_path)


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def listen(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # a socket's path may have 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(before)


@pytest.mark.parametrize("name", ["reference/x", "notes", "deep/er/x", "reference/x.py"])
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (link_to("/dev/zero"), "a link"),
        (link_to("recipe.toml"), "a link"),
        (link_to("nowhere"), "a link"),
        (link_to("/"), "a link"),
        (os.mkfifo, "a pipe"),
        (listen, "a socket"),
    ],
)
def test_what_is_no_regular_file_is_refused_by_name(
    folder: Path, tmp_path: Path, name: str, make: Callable[[Path], None], kind: str
) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    said = [str(problem) for problem in check(folder)]
    assert any(f"{path}: is {kind}" in text for text in said), said
    for use in (load.load, lambda origin: load.copy(origin, tmp_path / "copy")):
        with pytest.raises(RecipeError, match=rf"/{name}: is {kind}"):
            use(folder)
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("name", ["recipe.toml", "seed_ideas.json", "playbook.jsonl", "score.py"])
@pytest.mark.parametrize("make", [link_to("/dev/zero"), os.mkfifo])
def test_a_file_that_is_read_is_never_waited_for(
    folder: Path, name: str, make: Callable[[Path], None]
) -> None:
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    said = [str(problem) for problem in check(folder)]
    refused = rf"{folder / name}: .*read: .* a (device|pipe)\b"
    assert any(re.match(refused, text) for text in said), said


@pytest.mark.parametrize("name", ["reference/notes.txt", "prepare.py", "seed_ideas.json"])
def test_a_file_without_bounds_is_not_read(folder: Path, name: str) -> None:
    (folder / name).touch()
    os.truncate(folder / name, 2**36)  # sparse: on the disk it is nothing
    said = [str(problem) for problem in check(folder)]
    assert any("larger than 64 MiB" in text for text in said), said
    assert any("larger than 1024 MiB" in text and "prepare.py" in text for text in said), said


def test_a_recipe_of_bounded_size_counts_all_its_files(folder: Path, tmp_path: Path) -> None:
    (folder / "data").mkdir()
    for part in range(5):
        path = folder / "data" / f"part{part}"
        path.touch()
        os.truncate(path, tree.LARGEST // 4)
    (problem,) = check(folder)
    assert problem.file.name == "part3"
    with pytest.raises(RecipeError, match="part3"):
        load.copy(folder, tmp_path / "copy")


def test_an_image_beside_the_recipe_may_be_large(folder: Path, tmp_path: Path) -> None:
    text = (folder / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(text.replace("seeds = 5", 'seeds = 5\nimage = "i.sif"'))
    (folder / "i.sif").mkdir()
    (folder / "i.sif" / "sh").symlink_to("/bin/sh")  # a folder that was unpacked
    assert check(folder) == []
    load.copy(folder, tmp_path / "copy")
    assert not (tmp_path / "copy" / "i.sif").exists()
    (folder / "i.sif" / "sh").unlink()
    (folder / "i.sif").rmdir()
    (folder / "i.sif").touch()
    os.truncate(folder / "i.sif", tree.LARGEST + 1)
    assert check(folder) == []


def test_a_copy_is_the_recipe_without_library_and_caches(folder: Path, tmp_path: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "reference" / "library").mkdir()  # a folder of code, and not the recipe's library
    (folder / "reference" / "library" / "tools.py").write_text("X = 1\n")
    (folder / "prepare.py").chmod(0o755)
    whole = hash_tree(folder)
    (folder / "library").mkdir()
    (folder / "library" / "papers").symlink_to("/dev/zero")  # its own reader judges it
    (folder / "reference" / "__pycache__").mkdir()
    (folder / "reference" / "__pycache__" / "x.pyc").touch()
    load.copy(folder, tmp_path / "copy")
    assert hash_tree(tmp_path / "copy") == whole
    assert (tmp_path / "copy" / "empty").is_dir()
    assert (tmp_path / "copy" / "prepare.py").stat().st_mode & 0o777 == 0o755
    assert {p.name for p in (tmp_path / "copy").iterdir()}.isdisjoint({"library", "__pycache__"})


def test_a_regular_file_is_read_by_way_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="larger"):
        read_regular(tmp_path / "link", 4)


def test_a_knob_s_file_is_never_waited_for(folder: Path) -> None:
    path = folder / "reference" / "experiment.py"
    path.unlink()
    os.mkfifo(path)
    said = [str(problem) for problem in check(folder)]
    assert any(f"{path}: is a pipe" in text for text in said), said
