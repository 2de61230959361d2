from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hpcscientist.config.settings import IDEATION
from hpcscientist.errors import EndpointError, PlaybookExhausted, ReplyError
from hpcscientist.ideation.propose import ModelProposer
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.models.prompting.fitting import TokenEstimate, Window
from hpcscientist.ports import Proposer
from hpcscientist.recipe.load import load, shipped_folder
from hpcscientist.records.idea import Proposal, idea_id_of, idea_seed
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.records.proposing import ArchiveEntry, ProposalTask, Repeated

REPLY = {
    "title": "Wider",
    "hypothesis": "h",
    "method": "m",
    "experiment_plan": "e",
    "summary": "A wider network.",
    "parent_ids": [],
}


class OneReply:
    """Gives the same reply to everything, or raises it."""

    name = "one reply"

    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.asked: list[ModelRequest] = []

    async def probe(self) -> None:
        pass

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        if isinstance(self.reply, Exception):
            raise self.reply
        return ModelReply(
            text=self.reply if isinstance(self.reply, str) else json.dumps(self.reply),
            model=self.name,
            prompt_tokens=1,
            completion_tokens=1,
            tokens_estimated=False,
            latency_s=0.0,
        )

    async def close(self) -> None:
        pass


def task(number: int = 9, feedback: str = "") -> ProposalTask:
    findings = {1: "improvement", 2: "in progress", 3: "failed", 4: ""}
    archive = tuple(
        ArchiveEntry(idea_id=idea_id_of(n), title=f"T{n}", summary=f"S{n}", finding=finding)
        for n, finding in findings.items()
    )
    return ProposalTask(
        idea_id=idea_id_of(number),
        number=number,
        round=1,
        feedback=feedback,
        archive=archive,
        scores=(),
    )


def proposer(model: Any, seed: int = 5) -> Proposer:
    return ModelProposer(model, load(shipped_folder() / "digits"), seed)


async def test_a_proposal_and_what_it_was_shown() -> None:
    model = OneReply(REPLY)
    asked = proposer(model)
    assert asked.by_outcomes is False
    proposed = await asked.propose(task().model_copy(update={"shown": ("idea-0001", "idea-0003")}))
    assert proposed.proposal.title == "Wider"
    assert proposed.shown == ("idea-0001", "idea-0003")
    assert proposed.knobs is None
    (request,) = model.asked
    assert (request.subject, request.key) == ("idea-0009", "propose/1")
    assert request.schema_name == "Proposal"
    assert request.seed == idea_seed(5, 9)


async def test_the_prompt_holds_archive_feedback_and_reference() -> None:
    model = OneReply(REPLY)
    recipe = load(shipped_folder() / "digits")
    await proposer(model).propose(task(feedback="Momentum helped."))
    prompt = model.asked[0].messages[0].content
    for part in (
        recipe.reference["experiment.py"].rstrip(),
        recipe.spec.topic.title,
        "idea-0001, T1 [improvement]: S1",
        "Momentum helped.",
        "number 9",
    ):
        assert part in prompt


async def test_a_proposal_is_kept_as_it_looks() -> None:
    """Nothing in it turns a line round, moves a cursor, or is there for machines alone."""
    shown = {
        "method": "a\u202eb\u2066c\x1b[2Jd\U000e0041e",
        "risks": "two\n\tlines, \u0645\u06cc\u200c\u062e",
    }
    proposed = await proposer(OneReply({**REPLY, **shown})).propose(task())
    assert proposed.proposal.method == "a b c [2Jd e"
    assert proposed.proposal.risks == shown["risks"]


@pytest.mark.parametrize(
    ("length", "is_taken"), [(20_000, True), (20_001, False), (200_000, False)]
)
async def test_a_proposal_that_no_prompt_has_room_for_is_asked_for_again(
    length: int, is_taken: bool
) -> None:
    model = OneReply({**REPLY, "technical_details": "x" * length})
    asked = proposer(model).propose(task())
    if is_taken:
        assert len((await asked).proposal.technical_details) == length
    else:
        with pytest.raises(ReplyError, match="technical_details"):
            await asked
        assert len(model.asked) == 3


async def test_unknown_parents_are_dropped() -> None:
    parents = ["idea-0003", "idea-0099", "nonsense", "idea-0001", "idea-0003", "idea-0009"]
    model = OneReply({**REPLY, "parent_ids": [*parents, "idea-0007"]})
    proposed = await proposer(model).propose(task())  # the ninth idea
    assert proposed.proposal.parent_ids == ("idea-0003", "idea-0001", "idea-0007")


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("idea-0004 Increase the width", "Increase the width"),
        ("Idea-0004: wider", "wider"),
        ("Against idea-0004", "Against idea-0004"),
        ("idea-0004", REPLY["method"].split(". ")[0]),
    ],
)
async def test_a_title_goes_without_an_idea_s_number(written: str, title: str) -> None:
    proposed = await proposer(OneReply({**REPLY, "title": written})).propose(task())
    assert proposed.proposal.title == title


def test_seeds_differ_by_idea_and_campaign_and_stay_the_same() -> None:
    seeds = {idea_seed(c, n) for c in range(20) for n in range(1, 51)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert idea_seed(0, 1) == 1419524863  # never changes


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ("no JSON at all", ReplyError),
        (PlaybookExhausted("none left"), PlaybookExhausted),
        (EndpointError("down"), EndpointError),
    ],
)
async def test_errors_are_the_port_s(reply: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        await proposer(OneReply(reply)).propose(task())


async def test_the_digits_playbook_is_exhausted_after_its_ideas(tmp_path: Path) -> None:
    recipe = load(shipped_folder() / "digits")
    assert recipe.playbook is not None
    model = PlaybookModel(recipe.playbook)
    last = model.ideas()[-1]
    asked = ModelProposer(model, recipe, 0)
    for number in model.ideas():
        await asked.propose(task(number))
    with pytest.raises(PlaybookExhausted):
        await asked.propose(task(last + 1))


def long_task(ideas: int) -> ProposalTask:
    archive = tuple(
        ArchiveEntry(
            idea_id=idea_id_of(n), title=f"T{n}", summary="S" * 200,
            finding="improvement" if n == 1 else "maintenance",
        )
        for n in range(1, ideas + 1)
    )  # fmt: skip
    lines = "\n".join(f"- idea-{n:04d} told {'F' * 100}" for n in range(1, ideas + 1))
    base = task(number=ideas + 1, feedback=f"Improved:\n{lines}")
    return base.model_copy(update={"archive": archive})


async def test_a_prompt_is_fitted_by_relevance() -> None:
    recipe, whole = load(shipped_folder() / "digits"), OneReply(REPLY)
    counter, given = TokenEstimate(), long_task(30)
    await ModelProposer(whole, recipe, 5).propose(given)
    full = counter.count(whole.asked[0].messages)
    seen: list[tuple[int, int, int]] = []
    for share in (1.0, 0.9, 0.6, 0.5, 0.4):
        model, context = OneReply(REPLY), round(full * share) + 4096
        await ModelProposer(model, recipe, 5, IDEATION, Window(context, counter)).propose(given)
        (asked,) = model.asked
        assert counter.count(asked.messages) + asked.max_tokens <= context
        prompt = asked.messages[0].content
        assert recipe.reference["experiment.py"].rstrip() in prompt
        assert '"$defs"' in prompt or '"properties"' in prompt
        seen.append((prompt.count("S" * 200), prompt.count("told FF"), prompt.count("Not tried")))
    assert seen[0][:2] == (30, 30)
    archive, feedback, topic = zip(*seen, strict=True)
    for column in (archive, feedback, topic):
        assert list(column) == sorted(column, reverse=True)
    assert 0 < archive[1] < 30
    assert all(f == 30 or a == 0 for a, f, _ in seen)
    assert seen[-1][0] == 0


async def test_what_improved_is_told_longest_and_that_some_is_left_out() -> None:
    recipe, given = load(shipped_folder() / "digits"), long_task(30)
    whole, model = OneReply(REPLY), OneReply(REPLY)
    await ModelProposer(whole, recipe, 5).propose(given)
    context = TokenEstimate().count(whole.asked[0].messages) + 4096 - 1000
    await ModelProposer(model, recipe, 5, IDEATION, Window(context)).propose(given)
    prompt = model.asked[0].messages[0].content
    assert "idea-0001, T1 [improvement]" in prompt
    assert "idea-0002, T2 [" not in prompt
    assert "idea-0030, T30 [" in prompt
    left = 30 - prompt.count("S" * 200)
    assert re.search(f"^{left} of .* left out", prompt, re.MULTILINE)


async def test_a_context_that_is_too_short_names_what_is_needed() -> None:
    model = OneReply(REPLY)
    settings = IDEATION.model_copy(update={"context": 1000})
    asked = ModelProposer(model, load(shipped_folder() / "digits"), 5, settings)
    with pytest.raises(ReplyError, match=r"idea-0009: propose/1: .* context of \d+ or more"):
        await asked.propose(task())
    assert model.asked == []


async def test_what_repeats_an_idea_is_asked_for_once_more_with_what_it_repeats() -> None:
    model = OneReply({**REPLY, "title": "Averaging", "parent_ids": ["idea-0003", "idea-0099"]})
    proposer = ModelProposer(model, load(shipped_folder() / "digits"), seed=0)
    first = Proposal.model_validate_json(json.dumps(REPLY))
    told = Repeated(proposal=first, title="Wide\n## Net", summary="Wider.", reason="looks like it")
    found = await proposer.reconsider(task(), told)
    assert (found.title, found.parent_ids) == ("Averaging", ("idea-0003",))
    (asked,) = model.asked
    assert (asked.key, asked.seed) == ("propose/2", idea_seed(idea_seed(0, 9), 1))
    question, answer, said = asked.messages[-3:]
    assert "number 9 of" in question.content
    assert json.loads(answer.content)["title"] == "Wider"
    assert "Wide ## Net: Wider." in said.content
    assert "looks like it" in said.content
