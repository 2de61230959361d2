"""All steps of an idea, from its direction to its vetting, by a playbook's recorded replies."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from proposing_kit import PROPOSAL, Notes, a_task, digits, ideation, review

from hpcscientist.errors import PlaybookExhausted
from hpcscientist.ideation.directions import DirectionFinder
from hpcscientist.ideation.feasibility import FeasibilityJudge
from hpcscientist.ideation.novelty import NoveltyJudge
from hpcscientist.ideation.propose import ModelProposer
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.records.idea import Idea, idea_id_of
from hpcscientist.records.proposing import BatchTask

WAYS = [{"title": f"Way {n} {n}", "summary": f"By {n} means {n} alone"} for n in (1, 2, 3)]
SCORES = [
    {"direction": n, "novelty": n, "soundness": n, "potential": n, "reason": "r"} for n in (1, 2, 3)
]
ESTIMATE = {"seconds": 30, "memory_mb": 10, "fits": True, "reason": "Many passes."}
LINES: list[tuple[int, str, int, dict[str, Any]]] = [
    (1, "directions", 1, {"directions": WAYS}),
    (1, "converge", 1, {"judgements": SCORES}),
    *((n, "propose", 1, PROPOSAL | {"title": f"Idea {n}"}) for n in (1, 2, 3)),
    (1, "reflect", 1, {"remarks": "Vague.", "done": False, "proposal": PROPOSAL}),
    (1, "reflect", 2, {"remarks": "Good.", "done": True}),
    (2, "reflect", 1, {"remarks": "Good.", "done": True}),
    (1, "feasibility", 1, ESTIMATE),
]


@pytest.fixture
def playbook(tmp_path: Path) -> PlaybookModel:
    path = tmp_path / "playbook.jsonl"
    entries = (
        {"idea": idea, "stage": stage, "ordinal": ordinal, "reply": reply}
        for idea, stage, ordinal, reply in LINES
    )
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return PlaybookModel(path)


async def test_directions_proposals_and_reflection(playbook: PlaybookModel) -> None:
    recipe, notes = digits(), Notes()
    finder = DirectionFinder(ideation(playbook), review(playbook), recipe, notify=notes)
    ways = await finder.find(BatchTask(first=a_task(1), numbers=(1, 2, 3)))
    assert [way.title for way in ways if way] == ["Way 3 3", "Way 2 2", "Way 1 1"]
    proposer = ModelProposer(playbook, recipe, 5, reflections=3, notify=notes)
    tasks = [a_task(n, direction=way) for n, way in enumerate(ways, start=1)]

    async def titles(numbers: tuple[int, ...]) -> dict[int, str]:
        made = await asyncio.gather(*(proposer.propose(tasks[n - 1]) for n in numbers))
        return dict(zip(numbers, (p.proposal.title for p in made), strict=True))

    # The third has no reply to its reflection, and stands as it was proposed.
    expected = {1: "Wider", 2: "Idea 2", 3: "Idea 3"}
    assert await titles((1, 2, 3)) == await titles((3, 1, 2)) == expected
    assert list(notes.told) == ["reflect/idea-0003"]
    with pytest.raises(PlaybookExhausted):
        await proposer.propose(a_task(4))


async def test_a_batch_beyond_the_last_idea_goes_without_directions(
    playbook: PlaybookModel,
) -> None:
    notes = Notes()
    finder = DirectionFinder(ideation(playbook), review(playbook), digits(), notify=notes)
    ways = await finder.find(BatchTask(first=a_task(4), numbers=(4, 5)))
    assert ways == (None, None)
    assert " idea-0004, stage directions/1" in notes.told["directions/idea-0004"]


@pytest.mark.parametrize(("number", "fits"), [(1, False), (2, True), (4, True)])
async def test_vetting(playbook: PlaybookModel, number: int, fits: bool) -> None:
    proposal = (await ModelProposer(playbook, digits(), 5).propose(a_task(1))).proposal
    idea = Idea(
        idea_id=idea_id_of(number), number=number, round=1, proposal=proposal, model="m", seed=5
    )
    verdict = await FeasibilityJudge(review(playbook), digits()).judge(idea)
    assert verdict.fits is fits
    novelty = await NoveltyJudge(review(playbook), None).judge(idea)
    assert novelty.decision == "undecided"
