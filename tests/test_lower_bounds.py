"""What the gate installs: the bounds of pyproject.toml, and versions that satisfy them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# They judge the code and take no part in its tests: the newest in their range alone are run.
JUDGES = {"ruff", "mypy", "import-linter", "scipy-stubs"}


def requirements() -> list[Requirement]:
    """Everything that the gate's installation asks for by name."""
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *extras["pdf"], *extras["plots"], *extras["dev"]]
    found = [Requirement(line) for line in lines]
    return [one for one in found if one.name not in {PROJECT["name"], *JUDGES}]


def pinned(name: str) -> dict[str, Version]:
    """Versions by package, as a list of the gate's has them."""
    lines = (ROOT / ".ci" / name).read_text().splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(package): Version(version) for package, version in pairs}


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
