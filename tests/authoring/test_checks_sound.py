"""Code that is known to run has no problem."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

import hpcscientist
from hpcscientist.authoring.checks import check
from hpcscientist.recipe.load import load, shipped_folder
from hpcscientist.recipe.packages import available

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
SOURCES = Path(hpcscientist.__file__).parent


@pytest.mark.parametrize("folder", sorted(shipped_folder().glob("*/recipe.toml")), ids=str)
def test_references_of_recipes(folder: Path) -> None:
    recipe = load(folder.parent)
    assert check(recipe.reference, available(recipe.reference)) == []
    others = {p.name: p.read_text() for p in recipe.folder.glob("*.py")}
    assert check(others) == []


@pytest.mark.parametrize(
    "name",
    [
        *("argparse", "ast", "collections/__init__", "configparser", "contextlib", "dataclasses"),
        *("enum", "functools", "inspect", "logging/__init__", "pickle", "random", "shutil"),
        *("statistics", "subprocess", "tarfile", "threading", "typing", "zipfile"),
    ],
)
def test_modules_of_the_standard_library(name: str) -> None:
    path = LIBRARY / f"{name}.py"
    if not path.exists():  # a folder in newer Pythons
        path = LIBRARY / name / "__init__.py"
    assert check({f"{name.replace('/', '_')}_copy.py": path.read_bytes().decode()}, ()) == []


@pytest.mark.parametrize(
    "name",
    [
        *("concurrent", "json"),
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("asyncio", "email", "http", "unittest")
        ),
    ],
)
def test_packages_of_the_standard_library(name: str) -> None:
    files = {
        f"copied/{path.relative_to(LIBRARY)}": path.read_bytes().decode()
        for path in sorted((LIBRARY / name).rglob("*.py"))
        if not {"test", "tests"} & set(path.parts)
    }
    assert len(files) > 2
    assert check(files) == []


@pytest.mark.full
def test_all_sources_of_this_package() -> None:
    files = {
        str(path.relative_to(SOURCES.parent)): path.read_bytes().decode()
        for path in sorted(SOURCES.rglob("*.py"))
    }
    assert len(files) > 200
    assert [str(problem) for problem in check(files)] == []
