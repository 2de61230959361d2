from __future__ import annotations

import os
from pathlib import Path

import pytest

import hpcscientist
from hpcscientist.files.hashing import OwnCode, hash_tree, package_hash, tree_files


def test_package_hash_is_the_same_installed_and_in_a_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "hpcscientist"
    (package / "room").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "room" / "a.py").write_text("a = 1\n")
    monkeypatch.setattr(hpcscientist, "__file__", str(package / "__init__.py"))
    of_clone = package_hash.__wrapped__()
    assert of_clone == hash_tree(package)
    (package / "shipped").mkdir()
    (package / "shipped" / "recipe.toml").write_text("")
    assert package_hash.__wrapped__() == of_clone
    (package / "room" / "a.py").write_text("a = 2\n")
    assert package_hash.__wrapped__() != of_clone


def test_package_hash_is_of_this_package() -> None:
    assert len(package_hash()) == 64


def test_a_tree_is_its_regular_files(tmp_path: Path) -> None:
    for name in ("b.py", "a/z.py", "a/__pycache__/z.pyc", "a-b.py", "a/deep/er/.hidden", "c/d"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link.py").symlink_to("b.py")
    (tmp_path / "linked").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    found = [path.relative_to(tmp_path).as_posix() for path in tree_files(tmp_path)]
    assert found == ["a-b.py", "a/deep/er/.hidden", "a/z.py", "b.py", "c/d"]
    assert tree_files(tmp_path / "missing") == tree_files(tmp_path / "b.py") == []


def test_code_that_scores_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    there, planted = tmp_path / "there.pth", tmp_path / "planted.pth"
    there.write_text("import os\n")
    (tmp_path / "module.py").write_text("")
    code = OwnCode()
    assert code.changed() == []
    planted.write_text("import sys\n")
    assert code.changed() == [str(planted)]
    assert code.changed() == [str(planted)]
    planted.unlink()
    info = there.stat()
    there.write_text("import re\n ")
    os.utime(there, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert code.changed() == [str(there)]
    there.write_text("import os\n")
    (tmp_path / "module.py").write_text("0")
    assert code.changed() == []
    there.unlink()
    assert code.changed() == [str(there)]
