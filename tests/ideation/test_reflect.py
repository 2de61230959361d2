from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proposing_kit import PROPOSAL, Notes, Scripted, a_leader, a_task, digits, papers, proposal

from hpcscientist.config.settings import IDEATION
from hpcscientist.errors import EndpointError, PlaybookExhausted, ReplyError
from hpcscientist.ideation.propose import ModelProposer
from hpcscientist.ideation.reflect import improved
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.records.idea import Proposal, idea_seed
from hpcscientist.records.proposing import ProposalTask


def said(done: bool = False, **proposal: Any) -> dict[str, Any]:
    reply: dict[str, Any] = {"remarks": "It is vague.", "done": done}
    return reply | ({"proposal": PROPOSAL | proposal} if proposal else {})


async def reflected(
    replies: dict[str, Any], rounds: int = 3, task: ProposalTask | None = None
) -> tuple[Proposal, Scripted, Notes]:
    model, notes = Scripted({"propose/1": PROPOSAL} | replies), Notes()
    proposer = ModelProposer(model, digits(), 5, reflections=rounds, notify=notes)
    proposed = await proposer.propose(task or a_task())
    return proposed.proposal, model, notes


async def test_each_round_shows_the_proposal_of_the_one_before() -> None:
    replies = {"reflect/1": said(title="Second"), "reflect/2": said(title="Third")}
    last, model, notes = await reflected(replies, rounds=2)
    assert last.title == "Third"
    assert model.keys == ["propose/1", "reflect/1", "reflect/2"]
    assert notes.told == {}
    first, second, third = model.asked
    assert [m.role for m in second.messages] == ["user", "assistant", "user"]
    # The question of the proposal stands at the beginning of each round, to the letter.
    question = second.messages[0].content
    assert first.messages[0].content.startswith(question)
    assert third.messages[0].content == question
    assert Proposal.model_validate_json(second.messages[1].content) == proposal()
    assert '"title":"Second"' in third.messages[1].content
    assert re.search("Round 2 of .* 2: ", third.messages[2].content)
    assert "- It is vague." in third.messages[2].content
    assert {request.role for request in model.asked} == {"ideation"}
    assert {request.seed for request in model.asked} == {idea_seed(5, 9)}
    assert third.schema_name == "ReflectReply"


@pytest.mark.parametrize(
    ("reply", "title"),
    [
        (said(done=True), "Wider"),
        (said(done=True, title="Last"), "Last"),
        (said(), "Wider"),
        (said(title="Wider"), "Wider"),  # unchanged
        (said() | {"proposal": None}, "Wider"),
    ],
)
async def test_it_stops_early(reply: dict[str, Any], title: str) -> None:
    last, model, notes = await reflected({"reflect/1": reply})
    assert (last.title, model.keys[1:], notes.told) == (title, ["reflect/1"], {})


@pytest.mark.parametrize(
    "reply",
    [
        ReplyError("a hole\nof two lines"),
        PlaybookExhausted("none left"),
        "no JSON",
        {"remarks": "", "done": True},
        {"remarks": "r", "done": False, "proposal": {"title": "half of one"}},
    ],
)
async def test_an_unusable_reply_keeps_the_proposal_and_is_noted(reply: Any) -> None:
    last, model, notes = await reflected({"reflect/1": said(title="Second"), "reflect/2": reply})
    assert last.title == "Second"
    assert not any(key.startswith("reflect/3") for key in model.keys)
    ((name, text),) = notes.told.items()
    assert name == "reflect/idea-0009"
    assert re.match("the proposal .* before round 2: ", text)
    assert "\n" not in text


async def test_an_endpoint_that_fails_is_no_answer() -> None:
    with pytest.raises(EndpointError):
        await reflected({"reflect/1": EndpointError("down")})


async def test_no_rounds_ask_nothing() -> None:
    assert (await reflected({}, rounds=0))[1].keys == ["propose/1"]


async def test_a_context_too_short_for_a_round_keeps_the_proposal() -> None:
    whole, notes = Scripted({"propose/1": PROPOSAL}), Notes()
    await ModelProposer(whole, digits(), 5).propose(a_task())
    long = PROPOSAL | dict.fromkeys(("method", "risks", "motivation"), "m" * 20000)
    model = Scripted({"propose/1": long})
    proposer = ModelProposer(
        model, digits(), 5, IDEATION, Window(12_000), reflections=3, notify=notes
    )
    assert (await proposer.propose(a_task())).proposal.method == long["method"]
    assert model.keys == ["propose/1"]
    assert "context" in notes.told["reflect/idea-0009"]


async def test_lineage_is_kept_and_checked_in_every_round() -> None:
    task = a_task(mode="follow-up", leader=a_leader(), references=papers(3))
    first = PROPOSAL | {"parent_ids": ["idea-0001"], "papers": ["arxiv:1"], "motivation": "Why."}
    second = {"parent_ids": ["idea-0099"], "papers": ["arxiv:3", "arxiv:9"], "title": "Second"}
    replies = {"propose/1": first, "reflect/1": said(**second), "reflect/2": said(done=True)}
    last, _, _ = await reflected(replies, task=task)
    assert last.title == "Second"
    assert last.parent_ids == ("idea-0002", "idea-0001")
    assert last.papers == ("arxiv:1", "arxiv:3")
    assert last.motivation == "Why."


def test_what_an_improved_proposal_leaves_out_stays() -> None:
    before = proposal(risks="Slow.", novelty=8, interestingness=7)
    after = proposal(title="Better", risks="", interestingness=2)
    assert improved(before, after) == proposal(
        title="Better", risks="Slow.", novelty=8, interestingness=2
    )


_TITLES = st.sampled_from(["Wider", "Deeper", "Longer"])
_REPLIES = st.one_of(
    st.builds(lambda done: said(done=done), st.booleans()),
    st.builds(lambda done, title: said(done=done, title=title), st.booleans(), _TITLES),
    st.sampled_from(["nonsense", "{}", ReplyError("a hole"), PlaybookExhausted("none left")]),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(_REPLIES, max_size=6), st.integers(0, 4))
def test_it_ends_whatever_is_said(replies: list[Any], rounds: int) -> None:
    script = {f"reflect/{n}": reply for n, reply in enumerate(replies, start=1)}
    last, model, notes = asyncio.run(reflected(script, rounds))
    asked = {key.split("/repair")[0] for key in model.keys[1:]}
    assert asked == {f"reflect/{n}" for n in range(1, len(asked) + 1)}
    assert len(asked) <= rounds
    assert len(notes.told) <= 1
    assert last.title in {"Wider", "Deeper", "Longer"}
    again, _, _ = asyncio.run(reflected(script, rounds))
    assert again == last
