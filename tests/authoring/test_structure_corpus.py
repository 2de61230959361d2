"""Of every broken experiment, the structure around its frames is exactly the labelled one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchmarks.tracebacks import BROKEN, Case, cases

from hpcscientist.authoring.structure import LocalStructure, local_structure, outline
from hpcscientist.authoring.tracebacks.log import Frame

CASES = cases()


def label(case: Case) -> dict[str, Any]:
    text = (BROKEN / case.name / "structure.json").read_text("utf-8")
    labelled: dict[str, Any] = json.loads(text)
    return labelled


def around(case: Case) -> LocalStructure:
    places = case.frames
    frames = [Frame(file=f, line=line, function=name, code="") for f, line, name in places]
    return local_structure(case.files, frames)


def definitions(found: LocalStructure) -> list[list[Any]]:
    return [[d.file, d.name, d.first, d.last] for d in found.definitions]


def calls(found: LocalStructure) -> list[list[Any]]:
    return [[c.caller, c.callee, c.file, c.line] for c in found.calls]


def test_every_case_is_labelled() -> None:
    assert len(CASES) >= 60
    assert [c.name for c in CASES if not (BROKEN / c.name / "structure.json").exists()] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_structure_is_exactly_the_labelled_one(case: Case) -> None:
    found, wanted = around(case), label(case)
    assert definitions(found) == wanted["definitions"]
    assert calls(found) == wanted["calls"]
    assert [[b.name, b.file, b.line] for b in found.names] == wanted["names"]
    assert [[s.name, s.file, s.line, s.shape] for s in found.shapes] == wanted["shapes"]


@pytest.mark.parametrize("case", [c for c in CASES if not c.frames], ids=lambda case: case.name)
def test_without_frames_there_is_the_outline(case: Case) -> None:
    wanted = label(case)
    assert "no frames" in wanted["remark"]
    assert not around(case)
    found = outline(case.files)
    assert definitions(found) == wanted["outline definitions"]
    assert calls(found) == wanted["outline calls"]
