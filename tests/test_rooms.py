"""Tests of what the rooms promise a newcomer: no import cycles, and pages that match the code."""

from __future__ import annotations

import ast
import re
from enum import StrEnum
from graphlib import TopologicalSorter
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any

import pytest

from hpcscientist.config.layers import defaults
from hpcscientist.config.settings import Settings
from hpcscientist.records.trial import IdeaFailure, MachineFailure

PACKAGE = Path(__file__).parents[1] / "hpcscientist"  # what is installed has no pages
_FILES = r"\.(py|json|jsonl|toml|tar|arrow|npy|pdf|tex|md)$"
ROOMS = sorted(init.parent for init in PACKAGE.rglob("__init__.py"))


def test_there_are_rooms() -> None:
    assert len(ROOMS) > 40


@pytest.fixture(scope="module")
def house() -> Any:
    grimp = pytest.importorskip("grimp", reason="comes with import-linter")
    return grimp.build_graph("hpcscientist", cache_dir=None)


def test_no_files_import_each_other_in_a_circle(house: Any) -> None:
    """Imports within functions count too: a deferred cycle is still a cycle."""
    needs = {module: house.find_modules_directly_imported_by(module) for module in house.modules}
    assert len(list(TopologicalSorter(needs).static_order())) == len(house.modules)


def test_no_two_folders_beside_each_other_import_each_other(house: Any) -> None:
    folders = {".".join(["hpcscientist", *room.relative_to(PACKAGE).parts]) for room in ROOMS}
    pairs = {
        pair
        for module in house.modules
        for imported in house.find_modules_directly_imported_by(module)
        if set(pair := _where_they_part(module, imported)) <= folders
    }
    assert sorted(pair for pair in pairs if pair[::-1] in pairs) == []


def _where_they_part(one: str, other: str) -> tuple[str, str]:
    parts = list(zip_longest(one.split("."), other.split("."), fillvalue=""))
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], parts)))
    first, second = (".".join(part[side] for part in parts[: same + 1]) for side in (0, 1))
    return first, second


@pytest.mark.parametrize(
    ("of", "kinds"),
    [
        ("the idea", set(IdeaFailure)),
        # Such a trial is rerun; only campaigns of earlier releases have this failure.
        ("the machine", set(MachineFailure) - {MachineFailure.PREEMPTED}),
    ],
)
def test_each_failure_is_explained(of: str, kinds: set[StrEnum]) -> None:
    page = (PACKAGE / "execution" / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(rf"^\| failure of {of} .*\n\| ---.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(named) == sorted(kind.value for kind in kinds)


def test_every_name_that_a_text_points_to_exists() -> None:
    """Covers `room.module.name` in docstrings, comments and pages, and the keys of settings."""
    keys = set(defaults(Settings))
    files = [path for kind in ("*.py", "*.md") for path in PACKAGE.rglob(kind)]
    stale = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in files
        for name in re.findall(r"`([a-z_]+(?:\.\w+)+)(?:\([^`]*\))?`", path.read_text("utf-8"))
        if name not in keys
        and not re.search(r"\.(py|json|jsonl|toml|tar|arrow|npy|pdf|tex|md)$", name)
        if not _is_there(name.removeprefix("hpcscientist.").split("."))
    ]
    assert stale == []


def _is_there(names: list[str]) -> bool:
    """Return whether names lead from a room to a module or to what it defines; True for other
    words.
    """
    place = PACKAGE
    if not (place / names[0]).is_dir():
        return True
    for number, name in enumerate(names):
        if (place / name).is_dir():
            place /= name
            continue
        module = place / f"{name}.py"
        defined = names[number + 1 :] if module.is_file() else names[number:]
        source = module if module.is_file() else place / "__init__.py"
        return not defined or defined[0] in _defined(source)
    return True


def _defined(source: Path) -> set[str]:
    found = set[str]()
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
    return found
