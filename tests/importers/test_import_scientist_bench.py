"""An instance of Scientist-Bench: references to wish for, an instruction, two levels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from import_kit import draft_of, told, write

from hpcscientist.errors import RecipeError
from hpcscientist.importers.draft import Fate
from hpcscientist.recipe.checks.check import check

INSTANCE: dict[str, Any] = {
    "target": "PondNet: seeing ponds",
    "instance_id": "ponds",
    "authors": ["A. Pond"],
    "abstract": "PondNet sees ponds.",
    "source_papers": [
        {"reference": "Ponds at night", "rank": 2, "usage": "The proposed model starts from it."},
        {"reference": "Seeing {water} 100%", "rank": 1, "usage": "Its loss."},
        {"reference": "  ", "rank": 3},
        "no table",
    ],
    "task1": "Add a layer that sees water.",
    "task2": "Ponds are hard to see.",
}


def instance(room: Path, **changed: Any) -> Path:
    text = json.dumps({**INSTANCE, **changed})
    return write(room, {"graph/ponds.json": text}) / "graph" / "ponds.json"


def test_level_1_gives_the_instruction_and_level_2_does_not(tmp_path: Path) -> None:
    path = instance(tmp_path)
    first, second = (draft_of("scientist-bench", path, level=level) for level in (1, 2))
    assert first.files["instruction.txt"] == b"Add a layer that sees water.\n"
    assert "instruction.txt" not in second.files
    assert "--instruction" in first.commands[-1]
    assert "--instruction" not in second.commands[-1]
    for draft, tells in ((first, True), (second, False)):
        assert "Ponds are hard to see." in draft.document["topic"]["description"]
        assert (b"starts from it" in draft.files["library/wishes.bib"]) is tells


def test_references_are_a_wish_list_by_rank(tmp_path: Path) -> None:
    draft = draft_of("scientist-bench", instance(tmp_path))
    assert draft.files["wishlist.txt"] == b"Seeing water 100\nPonds at night\n"
    assert "2 of source_papers" in told(draft, Fate.LOST)


def test_what_is_to_be_matched_stands_nowhere(tmp_path: Path) -> None:
    draft = draft_of("scientist-bench", instance(tmp_path), tmp_path / "made")
    draft.write()
    everything = [path.read_bytes() for path in (tmp_path / "made").rglob("*") if path.is_file()]
    assert not any(b"PondNet" in content for content in everything)
    assert check(tmp_path / "made") == []


def test_the_domain_is_the_folders_or_is_asked_for(tmp_path: Path) -> None:
    path = instance(tmp_path)
    assert draft_of("scientist-bench", path).document["metrics"][0]["name"]
    moved = path.rename(tmp_path / "ponds.json")
    assert told(draft_of("scientist-bench", moved), Fate.REFUSED) == ["recipe"]
    assert draft_of("scientist-bench", moved, recipe="digits").refusals == []


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"source_papers": 1}', '{"source_papers": "x"}', "[" * 100_000]
)
def test_what_is_no_instance_is_one_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError):
        draft_of("scientist-bench", write(tmp_path, {"i.json": text}) / "i.json")


def test_level_1_without_an_instruction_is_refused(tmp_path: Path) -> None:
    draft = draft_of("scientist-bench", instance(tmp_path, task1=" "))
    assert told(draft, Fate.REFUSED) == ["task1"]
