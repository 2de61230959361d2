from __future__ import annotations

from pathlib import Path

import pytest

import hpcscientist
from hpcscientist.files.hashing import hash_tree, package_hash


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
