"""Tests of what the gate installs: the bounds in pyproject.toml, and versions that satisfy them."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Tools that judge the code but are not used in its tests: only their newest versions are run.
JUDGES = {"ruff", "mypy", "import-linter", "scipy-stubs"}


# Packages that every test uses.
IN_TESTS = {"hypothesis", "pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist"}


def requirements() -> list[Requirement]:
    """Return all requirements that the gate installs by name."""
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *extras["pdf"], *extras["plots"], *extras["dev"]]
    found = [Requirement(line) for line in lines]
    return [one for one in found if one.name not in {PROJECT["name"], *JUDGES}]


def pinned(name: str) -> dict[str, Version]:
    """Return the versions by package in one of the gate's lists."""
    lines = (ROOT / ".ci" / name).read_text().splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(package): Version(version) for package, version in pairs}


def shown() -> dict[str, list[Path]]:
    """Return the tests that the gate runs on the oldest versions, by package."""
    lines = (ROOT / ".ci" / "lowest_tests.txt").read_text().splitlines()
    pairs = [line.split(":", 1) for line in lines if not line.startswith(("#", "left out"))]
    return {name: [*map(found, tests.split())] for name, tests in pairs}


def found(tests: str) -> Path:
    """Return the first file or folder that matches this pattern."""
    return next(iter(sorted(ROOT.glob(tests.partition("::")[0]))))


@cache
def imported(file: Path) -> frozenset[str]:
    """Return the names of the packages that a file imports, anywhere in its code."""
    return frozenset(_imported(file))


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (
                ast.literal_eval(each) for each in node.args if isinstance(each, ast.Constant)
            )


def bound(requirement: Requirement) -> Version:
    (lowest,) = [one.version for one in requirement.specifier if one.operator == ">="]
    return Version(lowest)


@pytest.mark.parametrize("requirement", requirements(), ids=lambda one: one.name)
def test_the_oldest_version_that_is_admitted_is_the_one_that_is_tested(
    requirement: Requirement,
) -> None:
    tested = pinned("lowest.txt")[canonicalize_name(requirement.name)]
    assert tested == bound(requirement)


@pytest.mark.parametrize("requirement", requirements(), ids=lambda one: one.name)
def test_the_gate_s_newest_version_is_admitted(requirement: Requirement) -> None:
    assert pinned("newest.txt")[canonicalize_name(requirement.name)] in requirement.specifier


def test_every_dependency_says_why_it_is_there() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for requirement in requirements():
        said = rf'^\s*("{re.escape(requirement.name)}[<>=\[].*#|\w+ = \["{requirement.name}.*#)'
        assert re.search(said, text, re.M), requirement.name


USED = [requirement.name for requirement in requirements() if requirement.name not in IN_TESTS]


def test_of_every_dependency_the_gate_runs_tests_on_the_oldest_version() -> None:
    assert shown().keys() - {"all together"} == set(USED)


@pytest.mark.parametrize("name", USED)
def test_on_the_oldest_version_each_room_that_imports_it_is_tried(name: str) -> None:
    module = {"scikit-learn": "sklearn", "pyyaml": "yaml"}.get(name, name.replace("-", "_"))
    files = (ROOT / "hpcscientist").glob("*/**/*.py")
    uses = [file for file in files if "broken" not in file.parts and module in imported(file)]
    rooms = {file.relative_to(ROOT / "hpcscientist").parts[0] for file in uses}
    if any(module in imported(file) for file in (ROOT / "recipes").rglob("*.py")):
        rooms.add("recipe")
    assert rooms, f"nothing imports {name}"
    tried = {path.relative_to(ROOT / "tests").parts[0] for path in shown()[name]}
    # Records and ports have no behaviour of their own: the rooms that use them have the tests.
    assert rooms - {"records", "ports"} <= tried
