"""What the rooms promise a newcomer: few files each, and pages that say what there is."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

import hpcscientist
from hpcscientist.records.outcome import IdeaFailure, MachineFailure

PACKAGE = Path(hpcscientist.__file__).parent
MOST = 10
ROOMS = sorted(init.parent for init in PACKAGE.rglob("__init__.py"))


def test_there_are_rooms() -> None:
    assert len(ROOMS) > 80


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(PACKAGE).as_posix())
def test_a_room_holds_ten_files_at_most(room: Path) -> None:
    files = [
        file.name for file in room.glob("*.py") if file.name not in ("__init__.py", "__main__.py")
    ]
    assert len(files) <= MOST, f"make a folder of those that belong together: {sorted(files)}"


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
