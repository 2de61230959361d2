"""What the rooms promise a newcomer: no circles, and pages that say what there is."""

from __future__ import annotations

import re
from enum import StrEnum
from graphlib import TopologicalSorter
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any

import pytest

import hpcscientist
from hpcscientist.records.outcome import IdeaFailure, MachineFailure

PACKAGE = Path(hpcscientist.__file__).parent
ROOMS = sorted(init.parent for init in PACKAGE.rglob("__init__.py"))


def test_there_are_rooms() -> None:
    assert len(ROOMS) > 80


@pytest.fixture(scope="module")
def house() -> Any:
    grimp = pytest.importorskip("grimp", reason="comes with import-linter")
    return grimp.build_graph("hpcscientist", cache_dir=None)


def test_no_files_import_each_other_in_a_circle(house: Any) -> None:
    """Imports within functions count: a circle that is put off is one all the same."""
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
        # Such a trial runs again; only campaigns of earlier releases have failures of it.
        ("the machine", set(MachineFailure) - {MachineFailure.PREEMPTED}),
    ],
)
def test_each_failure_is_explained(of: str, kinds: set[StrEnum]) -> None:
    page = (PACKAGE / "execution" / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(rf"^\| failure of {of} .*\n\| ---.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(named) == sorted(kind.value for kind in kinds)
