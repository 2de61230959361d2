"""Errors planted in papers that are right, each with a clean twin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from judge_kit import FORM, Judge, text_of

from hpcscientist.config.settings import Settings
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.models.role_client import Roles
from hpcscientist.records.model_calls import ModelRequest
from hpcscientist.reviews import paper
from hpcscientist.reviews.planted import bench
from hpcscientist.reviews.planted.errors import PLANTERS, plant
from hpcscientist.reviews.review import ReviewOptions

PAPERS = [paper.read(path) for path in sorted(bench._HOME.glob("*.md"))]
PLANTED = [one for of in PAPERS for one in plant(of)]


def test_every_kind_is_planted_in_each_paper() -> None:
    assert len(PAPERS) >= 2
    for of in PAPERS:
        assert [one.kind for one in plant(of)] == list(PLANTERS)
        assert of.findings == ()


@pytest.mark.parametrize("one", PLANTED, ids=lambda one: f"{one.paper}, {one.kind}")
def test_paper_and_twin_differ_from_the_original_in_one_place_each(one: Any) -> None:
    (original,) = [of.text for of in PAPERS if of.name == one.paper]
    assert one.error in one.broken and one.error not in original
    assert one.change in one.clean and one.change not in one.broken
    assert one.broken.replace(one.error, one.change, 1) == one.clean
    assert not bench.overlaps(one.error, "Labels stay as they are.")


def test_without_a_model_contradictions_and_unlisted_sources_are_found() -> None:
    # Of swapped numbers where the same words stand in another place of the paper, and only there.
    assert {(one.paper, one.kind) for one in PLANTED if bench.alarms(one.broken)} == {
        ("shifts", "swapped numbers"),
        ("shifts", "invented citation"),
        ("schedule", "invented citation"),
    }
    assert [bench.alarms(one.clean) for one in PLANTED] == [[]] * len(PLANTED)


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, judge: Judge) -> bench.PlantedReport:
    opened = Roles({"review": judge}, {"review": Window()})
    monkeypatch.setattr(bench, "open_judge", lambda *_: opened)
    return bench.measure((), ReviewOptions(FORM, Settings(), folder))


def error(kind: str, quote: str) -> dict[str, str]:
    return {"kind": kind, "quote": quote, "why": "It is wrong."}


def test_who_finds_all_and_is_quiet_on_twins_has_full_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(request: ModelRequest) -> dict[str, Any]:
        shown = text_of(request)
        return {"errors": [error(p.kind, p.error) for p in PLANTED if p.error in shown]}

    made = run(monkeypatch, tmp_path, Judge(script))
    every = made.model["all"]
    assert (every.recall.value, every.named.value, every.strict.value) == (1, 1, 1)
    assert every.alarms_a_twin == 0
    assert made.without_model["all"].strict.value == pytest.approx(3 / 14)


def test_who_takes_fright_at_every_change_finds_all_and_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(request: ModelRequest) -> dict[str, Any]:
        shown = text_of(request)
        both = [(p.kind, s) for p in PLANTED for s in (p.error, p.change) if s in shown]
        return {"errors": [error(kind, said) for kind, said in both]}

    every = run(monkeypatch, tmp_path, Judge(script)).model["all"]
    assert (every.recall.value, every.strict.value, every.false_alarms.value) == (1, 0, 1)


def test_an_alarm_elsewhere_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "Nothing is changed at test time."
    judge = Judge(lambda r: {"errors": [error("overclaim", said)]})
    every = run(monkeypatch, tmp_path, judge).model["all"]
    assert (every.recall.value, every.false_alarms.value, every.alarms_a_twin) == (0, 0, 1)


def test_texts_without_a_reply_are_told_and_the_rest_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = PLANTED[0]
    judge = Judge(lambda r: "no" if lost.error in text_of(r) else {"errors": []})
    made = run(monkeypatch, tmp_path, judge)
    assert made.lost == (f"{lost.paper}, {lost.kind}",)
    assert made.model["all"].recall.count == len(PLANTED) - 1
    again = Judge(lambda r: "no")
    assert run(monkeypatch, tmp_path, again) == made
    assert again.asked == []
    (folder,) = tmp_path.iterdir()
    assert len(json.loads((folder / "planted.json").read_text())) == len(PLANTED) - 1
