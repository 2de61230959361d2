"""Proposals by a language model. The bank decides whether one repeats an earlier idea."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from hpcscientist.config.settings import IDEATION, RoleSettings
from hpcscientist.errors import ReplyError
from hpcscientist.files.text import one_line
from hpcscientist.ideation.material import SUMMARY, TITLE, knowledge_prompt, proposal_limits
from hpcscientist.ideation.reflect import REFLECT, Reflection
from hpcscientist.models.prompting.fitting import Prompt, Window
from hpcscientist.models.prompting.naming import found_ids
from hpcscientist.models.prompting.prompts import line, render
from hpcscientist.models.role_client import CallPurpose, RoleClient
from hpcscientist.models.stage import TRIES, Calls, Expected, Kind, Means, Sample, Stage
from hpcscientist.ports import Model, Notify, logged
from hpcscientist.records.base import Record
from hpcscientist.records.idea import Proposal, idea_id_of
from hpcscientist.records.proposing import ProposalTask, Proposed, Repeated

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe

# Small models number their titles like the list of earlier ideas in the prompt, or write nothing
# else than such a number.
_NUMBER = re.compile(r"idea-\d{4,}\b[\s:.,)-]*", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")
_TITLE = 100  # characters


class ModelProposer:
    """Asks a model for ideas; implements `ports.Proposer`.

    The mode decides what an idea starts from: an instruction (guided), the campaign's knowledge
    alone (open), or the best idea so far (follow-up). `reflections` bounds the rounds that improve
    a proposal (see `reflect`); failed rounds are reported to `notify`.
    """

    by_outcomes = False

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        seed: int,
        settings: RoleSettings = IDEATION,
        window: Window | None = None,
        reflections: int = 0,
        notify: Notify = logged,
    ) -> None:
        self._recipe = recipe
        self._client = RoleClient(model, "ideation", settings, seed, window)
        self._reflection = Reflection(self._client, reflections, notify)

    async def propose(self, task: ProposalTask) -> Proposed:
        """Ask for one idea, and have it improved.

        Parents and papers that do not exist are dropped; in follow-up mode the leader is always a
        parent. `material.knowledge_prompt` says what a prompt leaves out if it is too long for the
        model. Raises PlaybookExhausted when no reply is left, ReplyError when there is no usable
        proposal, EndpointError.
        """
        prompt = self._prompt(task)
        call = CallPurpose(task.idea_id, task.number, "propose")
        reply = await self._client.ask(call, Proposal, prompt, proposal_limits(task))
        first = _settled(task, reply)

        def settle(proposal: Proposal) -> Proposal:
            return _settled(task, proposal)

        last = await self._reflection.improve(task, first, prompt, settle)
        return Proposed(proposal=last, shown=task.shown)

    async def reconsider(self, task: ProposalTask, repeated: Repeated) -> Proposal:
        """Ask once for another idea, in place of one that repeats an earlier idea.

        The call is stage `propose`, ordinal 2; its prompt continues the first question and its
        answer. Raises as `propose` does.
        """
        said = render(
            "repeats",
            title=line(repeated.title, TITLE),
            summary=line(repeated.summary, SUMMARY),
            reason=line(repeated.reason, SUMMARY),
        )
        prompt = self._prompt(task).answered((repeated.proposal.model_dump_json(),), said)
        call = CallPurpose(task.idea_id, task.number, "propose", 2, sample=1)
        reply = await self._client.ask(call, Proposal, prompt, proposal_limits(task))
        return _settled(task, reply)

    def _prompt(self, task: ProposalTask) -> Prompt:
        return knowledge_prompt("propose", self._recipe, task, self._recipe.spec.editable)


def _settled(task: ProposalTask, proposal: Proposal) -> Proposal:
    """Return a proposal whose parents and papers exist, and whose title has no idea's number.

    The method's first sentence replaces a title that is nothing else.
    """
    # Any earlier idea may be a parent, not only those in the prompt, which depend on timing.
    earlier = {idea_id_of(number) for number in range(1, task.number)}
    named: Iterable[str] = (parent for parent in proposal.parent_ids if parent in earlier)
    if task.mode == "follow-up" and task.leader is not None:
        named = (task.leader.idea_id, *named)
    papers = found_ids(proposal.papers, [paper.paper_id for paper in task.references])
    found = {
        "title": _title(proposal),
        "parent_ids": tuple(dict.fromkeys(named)),
        "papers": papers,
    }
    return proposal.model_copy(update=found)


def _title(proposal: Proposal) -> str:
    number = _NUMBER.match(proposal.title)
    if number is None:
        return proposal.title
    sentence = _SENTENCE_END.split(proposal.method.strip(), maxsplit=1)[0]
    return proposal.title[number.end() :] or one_line(sentence, _TITLE) or proposal.title


class ProposeStage(Stage[ModelProposer]):
    """Proposals, and another one for each that repeats an earlier idea."""

    name = "propose"
    kinds = (Kind("propose", "ideation", Proposal),)
    optional = False

    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return the calls: one for each idea, and one more if it repeats an earlier idea."""
        settings = expected.settings
        most = settings.ideas * TRIES * (2 if settings.loop.independence else 1)
        return (Calls("propose", settings.ideas, most),)

    def open(self, means: Means) -> ModelProposer:
        """Return the proposer."""
        settings = means.settings
        reflections = settings.proposing.reflections if REFLECT.name in means.stages else 0
        return ModelProposer(
            *(means.model, means.recipe, settings.seed, settings.ideation),
            means.windows.get("ideation"),
            reflections=reflections,
            notify=means.notify,
        )

    def answers(self, sample: Sample) -> Mapping[str, Record]:
        """Return a proposal, which reflection needs."""
        return {"propose": sample.idea.proposal} if REFLECT.name in sample.stages else {}

    async def weigh(self, opened: ModelProposer, sample: Sample) -> None:
        """Propose an idea, and reflect on it."""
        with contextlib.suppress(ReplyError):
            await opened.propose(sample.task)


PROPOSE = ProposeStage()
