"""Open weights served on the nodes of the job that drives: from nothing to finished, then nothing.

vLLM's real CPU engine, two replicas on two nodes, and models made on the spot.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from controlled import Controlled
from served_campaign import check_nothing_left, check_whole, launch, order_of

from hpcscientist.records.events import Event, IdeaEnded, ReplyRecorded
from hpcscientist.records.known.survey import Survey

pytestmark = [pytest.mark.e2e, pytest.mark.slurm, pytest.mark.serving, pytest.mark.timeout(1800)]

IDEAS, BATCH = 6, 3
# All that an idea goes through before its code, each step as short as it can be.
STEPS = """\
[proposing]
batch = 3
directions = 3
reflections = 1
novelty_rounds = 1
[literature]
queries = 1
expansions = 0
papers = 3
concepts = 1
[authoring]
plan = false
analysis = false
"""
REFERENCES = """\
@article{one, title = {Telling odd numbers}, year = {1999}, abstract = {Which numbers are odd.}}
@article{two, title = {Parity by voting}, year = {2001}, abstract = {Odd or even numbers, by vote.}}
"""


def check(served: Controlled) -> list[Event]:
    """It finished, and nothing of it is left anywhere."""
    events = check_whole(served)
    order = order_of(served)
    assert len(order.nodes) == 2
    check_nothing_left(served, order.nodes, order.ports.all())
    return events


def test_nonsense_becomes_honest_failures(served: Controlled, random_model: Path) -> None:
    library = served.tiny.folder / "tiny" / "library"
    library.mkdir()
    (library / "references.bib").write_text(REFERENCES)
    options = {"context": 16_384, "answer": 2_000, "ideas": BATCH}
    done = launch(served, random_model, **options, steps=STEPS)
    assert done.returncode == 3, done.stderr + served.logs()
    events = check(served)
    ended = [event for event in events if isinstance(event, IdeaEnded)]
    assert len(ended) == BATCH
    assert all(event.status in {"failed", "rejected"} and event.reason for event in ended)
    survey = Survey.model_validate_json(served.tiny.paths.survey.read_bytes())
    assert len(survey.papers) == 2
    asked = {e.call.partition("/")[0] for e in events if isinstance(e, ReplyRecorded)}
    assert {"attributes", "queries", "rank", "directions", "propose"} <= asked
    shown = served.hpcsci("results", "run", "--format", "json")
    rows = json.loads(shown.stdout)
    assert [row["status"] for row in rows if row["idea_id"] == "baseline"] == ["baseline"]
    assert all(row["finding"] != "improvement" for row in rows)


def test_model_that_was_taught_has_its_ideas_run_and_scored(
    served: Controlled, trained_model: Path
) -> None:
    done = launch(served, trained_model, context=4_096, answer=600, temperature=0.3, ideas=IDEAS)
    assert done.returncode == 0, done.stderr + served.logs()
    ended = [event for event in check(served) if isinstance(event, IdeaEnded)]
    assert [event.idea_id for event in ended if event.status == "scored"]
