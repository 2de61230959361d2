from __future__ import annotations

import importlib
from collections import Counter
from functools import reduce
from pathlib import Path

import pytest
from newcomers_page import PAGE, excerpts, is_part, names, section

WALK = section("One idea, from proposal to finding")
ROOMS = Path(PAGE).parent


@pytest.mark.parametrize(("file", "name"), names(PAGE.read_text(encoding="utf-8")))
def test_what_is_named_is_there(file: str, name: str) -> None:
    module = importlib.import_module("hpcscientist." + file.replace("/", "."))
    assert reduce(getattr, name.split("."), module)


def test_the_walk_names_and_quotes_enough_to_be_held_to() -> None:
    assert len(names(WALK)) > 30
    assert len(excerpts(WALK)) > 12


def test_a_quoted_line_may_lack_fields_and_hold_no_other() -> None:
    line = {"type": "a", "report": {"outcome": {"kind": "scored"}, "run": 1}}
    assert is_part({"report": {"outcome": {"kind": "scored"}}}, line)
    assert not is_part({"report": {"outcome": {"kind": "failed"}}}, line)
    assert not is_part({"report": {"usage": {}}}, line)
    assert not is_part({"type": {"a": 1}}, line)


def test_every_room_is_in_the_table_and_no_other() -> None:
    rows = [row.split("|")[1].strip() for row in section_of_rooms() if row.startswith("| ")][2:]
    named = {room.strip() for row in rows for room in row.split(",")}
    beside = {room.split("/")[0] for room in named if "/" in room}
    known = {path.name for path in ROOMS.iterdir() if (path / "__init__.py").exists()} | {
        "errors",
        "ports",
    }
    assert {room for room in named if "/" not in room} - {
        "structure",
        "notebook",
        "archive",
    } == known
    assert beside <= known


def section_of_rooms() -> list[str]:
    return PAGE.read_text(encoding="utf-8").split("\n## ")[0].splitlines()


def test_each_word_is_explained_once() -> None:
    rows = [row for row in section("Words").splitlines() if row.startswith("| ")][2:]
    words = Counter(row.split("|")[1].strip() for row in rows)
    assert len(words) > 20
    assert [word for word, times in words.items() if times > 1] == []
