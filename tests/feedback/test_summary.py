"""What the next proposer is told."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.feedback.causes import IdeaEvidence
from hpcscientist.feedback.decision import Rule, findings
from hpcscientist.feedback.summary import CHARACTERS_A_TOKEN, IdeaNote, summarise
from hpcscientist.records.trial import Direction, MetricSpec

UP = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE)
DOWN = MetricSpec(name="loss", direction=Direction.MINIMIZE)
BASE = {0: 0.50, 1: 0.51, 2: 0.49, 3: 0.50, 4: 0.52}
WOBBLE = (0.001, -0.001, 0.002, 0.0, -0.002)


def note(idea_id: str, by: float | None = None, metric: MetricSpec = UP, **fields: Any) -> IdeaNote:
    finding = None
    if by is not None:
        idea = {seed: value + by + WOBBLE[seed] for seed, value in BASE.items()}
        finding = findings(BASE, {"x": idea}, metric, Rule(q=0.05))["x"]
    values = {"title": f"Title of {idea_id}", "summary": "What it does.", "status": "scored"}
    return IdeaNote(idea_id=idea_id, finding=finding, **(values | fields))


NOTES = [
    note("rejected", status="rejected", reason="too close to idea-0001"),
    note("same", 0.0),
    note("worse", -0.1),
    note("much-worse", -0.3),
    note("late", status="failed", reason="timeout: ran past 30 s"),
    note("crash", status="failed", reason="error: NameError: x\n  is not defined"),
    note("crash-2", status="failed", reason="error: ValueError"),
    note("odd", status="failed", reason="no usable reply"),
    note("good", 0.1),
    note("best", 0.2),
    note("untold"),
]


def test_the_most_informative_comes_first() -> None:
    told = summarise(NOTES, UP, 10_000)
    assert told.shown == (
        *("best", "good", "crash", "crash-2", "odd", "late"),
        *("much-worse", "worse", "same", "untold", "rejected"),
    )
    assert told.improved == ("best", "good")


def test_effects_intervals_and_causes_are_told() -> None:
    text = summarise(NOTES, UP, 10_000).text
    assert "accuracy +0.2 (maximize, n=5, 95% interval +0.19" in text
    assert "adjusted p" in text
    assert "Failed: timeout (likely cause: more work" in text
    assert "Reason: error: NameError: x is not defined" in text
    assert text.count("Failed: error") == 1  # one heading a kind
    assert text.index("- best") < text.index("- crash") < text.index("- worse")


def test_a_lower_loss_is_an_improvement() -> None:
    told = summarise([note("up", 0.1, DOWN), note("down", -0.1, DOWN)], DOWN, 10_000)
    assert told.shown == ("down", "up")
    assert told.improved == ("down",)


def test_entries_are_dropped_whole() -> None:
    long = note("long", 0.3, summary="word " * 500)
    told = summarise([*NOTES, long], UP, 120)
    assert "long" not in told.shown
    assert told.shown[0] == "best"


def test_nothing_to_tell() -> None:
    assert summarise([], UP, 100).text == ""
    assert summarise(NOTES, UP, 0).shown == ()


def test_what_failed_alike_is_told_once_with_an_example() -> None:
    alike = [
        note(
            f"crash-{n}", status="failed", reason=f"error: ValueError: shape {n}; after 2 attempts"
        )
        for n in range(9)
    ]
    late = note("late", status="failed", reason="timeout: ran past 30 s")
    names = note("names", status="failed", reason="error: NameError: x")
    told = summarise([late, names, *alike], UP, 10_000)
    lines = told.text.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        "Failed: error",
        "- crash-0 Title of crash-0: What it does. Reason: error: ValueError: shape 0; after 2 "
        "attempts So too: crash-1, crash-2, crash-3, crash-4, crash-5 and 3 more",
        "- names Title of names: What it does. Reason: error: NameError: x",
        "Failed: timeout",
        "- late Title of late: What it does. Reason: timeout: ran past 30 s",
    ]
    assert told.shown == (*(f"crash-{n}" for n in range(6)), "names", "late")


def test_likely_causes_stand_behind_the_effect() -> None:
    evidence = IdeaEvidence(curve="overfit", lacking="dropout is missing", reading="Too wide.")
    worse = note("worse", -0.1, evidence=evidence, reason="dropout is missing")
    text = summarise([worse], UP, 10_000).text
    assert re.search(
        r"Likely: not all .*\(dropout is missing\); .*opinion: \"Too wide\.\"\.$", text
    )
    assert "Reason" not in text


@given(tokens=st.integers(0, 700), order=st.permutations(NOTES))
def test_bounded_whole_and_independent_of_order(tokens: int, order: list[IdeaNote]) -> None:
    told = summarise(order, UP, tokens)
    assert len(told.text) <= tokens * CHARACTERS_A_TOKEN
    full = summarise(NOTES, UP, 10_000).text.splitlines()
    assert all(line in full for line in told.text.splitlines())
    assert told == summarise(NOTES, UP, tokens)


@pytest.mark.parametrize("tokens", [30, 60, 90])
def test_no_heading_stands_without_an_entry(tokens: int) -> None:
    lines = summarise(NOTES, UP, tokens).text.splitlines()
    for line, following in zip(lines, [*lines[1:], "end:"], strict=True):
        assert line.startswith("- ") or following.startswith("- ")


def test_a_copy_is_told_as_such_and_not_as_undecided() -> None:
    copied = "its predictions are those of idea-0001"
    text = summarise([note("again", copy_of=copied), note("untold")], UP, 10_000).text
    copies, undecided = text.split("Not decided yet:")
    assert re.match("Nothing .*own", copies)
    assert f"Reason: {copied}." in copies
    assert "again" not in undecided


def test_whom_an_idea_waits_for_is_not_named() -> None:
    ideas = {"first": None, "x": {seed: value + 0.1 for seed, value in BASE.items()}}
    finding = findings(BASE, ideas, UP, Rule(q=0.05, control="online"))["x"]
    assert (finding.reason or "").endswith(" first")
    text = summarise([note("x").model_copy(update={"finding": finding})], UP, 10_000).text
    assert "earlier idea." in text
    assert "first" not in text
