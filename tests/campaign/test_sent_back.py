"""Look-alikes go back to their proposer once, and are rejected if they still repeat an idea."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored

from hpcscientist.errors import EndpointError, PlaybookExhausted, ReplyError
from hpcscientist.history import journal
from hpcscientist.history.state import fold
from hpcscientist.records.events import IdeaAdmitted, IdeaProposed, IdeaRevised
from hpcscientist.records.idea import Idea, Proposal
from hpcscientist.records.proposing import ProposalTask, Proposed, Repeated

SAME = "a cosine schedule with warm restarts and a longer tail"
OTHER = "averages the weights of the last epochs"


def proposal(title: str, summary: str, method: str = "m") -> Proposal:
    return Proposal(
        title=title, hypothesis="h", method=method, experiment_plan="p", summary=summary
    )


class Again:
    """Gives other proposals for look-alikes, or fails; remembers what it was told."""

    def __init__(self, *answers: Proposal | Exception) -> None:
        self._answers = list(answers)
        self.told: list[tuple[ProposalTask, Repeated]] = []

    async def __call__(self, task: ProposalTask, repeated: Repeated) -> Proposal:
        self.told.append((task, repeated))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def drive(bench: CampaignBench, again: Again, *summaries: str) -> None:
    proposer = ScriptedProposer(*(summaries or (SAME, SAME)))
    await bench.drive(lambda _: scored(0.5), proposer, reconsider=again)


def events(bench: CampaignBench, *kinds: type) -> list[tuple[str, str]]:
    found = journal.read(bench.paths.journal)
    return [(event.type, event.idea_id) for event in found if isinstance(event, kinds)]  # type: ignore[union-attr]


@pytest.fixture
def bench(tmp_path: Path) -> CampaignBench:
    return CampaignBench(tmp_path, ideas=2, confirm=False)


async def test_another_idea_takes_the_place_of_a_look_alike(bench: CampaignBench) -> None:
    again = Again(proposal("Averaging", OTHER))
    await drive(bench, again)
    ((task, repeated),) = again.told
    assert (task.number, task.idea_id) == (2, "idea-0002")
    assert (repeated.title, repeated.summary) == ("Idea 1", SAME)
    assert "idea-0001 (cosine 1.00" in repeated.reason
    assert bench.ended()["idea-0002"][0] == "scored"
    idea = bench.state.ideas["idea-0002"]
    assert (idea.title, idea.summary, idea.revised) == ("Averaging", OTHER, True)
    kept = Idea.model_validate_json(bench.paths.idea("idea-0002").idea.read_bytes())
    assert kept.proposal.title == "Averaging"
    assert events(bench, IdeaRevised, IdeaAdmitted)[1:] == [
        ("idea_revised", "idea-0002"),
        ("idea_admitted", "idea-0002"),
    ]


async def test_what_still_repeats_an_idea_is_rejected_as_that(bench: CampaignBench) -> None:
    again = Again(proposal("The same again", f"{SAME} again"))
    await drive(bench, again)
    status, reason = bench.ended()["idea-0002"]
    assert status == "rejected"
    assert reason is not None
    assert re.search(r"proposer .*idea-0001 \(cosine 0\.9", reason)
    ended = bench.state.ideas["idea-0002"].ended
    assert ended is not None
    assert ended.like == "idea-0001"
    assert len(again.told) == 1


@pytest.mark.parametrize("error", [ReplyError("none"), PlaybookExhausted("none")])
async def test_where_nothing_comes_back_it_is_rejected_as_before(
    bench: CampaignBench, error: Exception
) -> None:
    await drive(bench, Again(error))
    assert bench.ended()["idea-0002"] == ("rejected", "looks like idea-0001 (cosine 1.00)")
    assert events(bench, IdeaRevised) == []


async def test_a_driver_that_is_killed_meanwhile_asks_nothing_twice(bench: CampaignBench) -> None:
    bench.trusted = True
    await drive(bench, Again(proposal("Averaging", OTHER)))
    lines = bench.paths.journal.read_bytes().splitlines(keepends=True)
    revised = next(n for n, line in enumerate(lines) if b'"idea_revised"' in line)
    for kept in (revised, revised + 1):  # idea.json is rewritten by then
        bench.paths.journal.write_bytes(b"".join(lines[:kept]))
        again = Again()
        await drive(bench, again)
        assert again.told == []
        assert bench.state.ideas["idea-0002"].title == "Averaging"
        assert bench.ended()["idea-0002"][0] == "scored"


async def test_an_endpoint_that_fails_leaves_the_look_alike_undecided(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2, confirm=False)
    with pytest.raises(EndpointError):
        await drive(bench, Again(*[EndpointError("down")] * 20))
    assert "idea-0002" not in bench.ended()
    await drive(bench, Again(proposal("Averaging", OTHER)))
    assert bench.ended()["idea-0002"][0] == "scored"


async def test_without_independence_nothing_goes_back(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2, confirm=False, independence=False)
    again = Again()
    await drive(bench, again)
    assert again.told == []
    assert bench.ended()["idea-0002"][0] == "scored"


class Titled(ScriptedProposer):
    """Proposals of the same change under one title, in other words."""

    def __init__(self, *given: Proposal) -> None:
        super().__init__()
        self._given = given

    async def propose(self, task: ProposalTask) -> Proposed:
        return Proposed(proposal=self._given[task.number - 1])


@pytest.mark.parametrize(
    ("title", "like"),
    [
        ("Increase the setting", "has the title of idea-0001"),
        (
            "Increase the setting now",
            "looks like idea-0001 (cosine 0.85 of titles, both change {})",
        ),
    ],
)
async def test_proposals_that_change_the_same_are_alike_by_their_titles(
    bench: CampaignBench, title: str, like: str
) -> None:
    knob = bench.recipe.spec.knobs[0].name
    first = proposal("Increase the setting", "Converges faster.", f"Set `{knob.lower()}` to 64.")
    second = proposal(title, "Points go together.", f"Change `{knob} = 3`.")
    again = Again(ReplyError("none"))
    await bench.drive(lambda _: scored(0.5), Titled(first, second), reconsider=again)
    status, reason = bench.ended()["idea-0002"]
    assert status == "rejected"
    assert reason == like.format(knob.casefold())
    assert bench.state.ideas["idea-0001"].touches == (knob.casefold(),)


def test_an_event_of_before_there_were_changes_is_read() -> None:
    line = (
        '{"type":"idea_proposed","idea_id":"idea-0001","number":1,"round":1,"title":"t",'
        '"parent_ids":[],"arm":"model","summary":"s","knobs":null,"shown":[],"idea_hash":"h"}'
    )
    state = fold([IdeaProposed.model_validate_json(line)])
    assert state.ideas["idea-0001"].touches == ()
