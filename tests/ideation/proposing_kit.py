"""Models that follow a script, tasks and ideas for the tests of this room."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from hpcscientist.config.settings import IDEATION, REVIEW
from hpcscientist.errors import ReplyError
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.models.role_client import RoleClient
from hpcscientist.ports import Model
from hpcscientist.recipe.load import Recipe, load, shipped_folder
from hpcscientist.records.idea import Idea, Proposal, idea_id_of
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.records.proposing import ArchiveEntry, Leader, ProposalTask, Reference

PROPOSAL: dict[str, Any] = {
    "title": "Wider",
    "hypothesis": "It underfits.",
    "method": "Double the width.",
    "experiment_plan": "HIDDEN_UNITS = 64",
    "summary": "A wider network.",
}


class Scripted:
    """Answers each call by its key, repairs included; what has no reply is refused."""

    name = "scripted"

    def __init__(self, replies: Mapping[str, Any]) -> None:
        self._replies = replies
        self.asked: list[ModelRequest] = []

    async def probe(self) -> None:
        pass

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        call = f"{request.stage}/{request.ordinal}"
        reply = self._replies.get(call, ReplyError(f"no reply for {call}"))
        if isinstance(reply, Exception):
            raise reply
        return ModelReply(
            text=reply if isinstance(reply, str) else json.dumps(reply),
            model=self.name,
            prompt_tokens=1,
            completion_tokens=1,
            tokens_estimated=True,
            latency_s=0.0,
        )

    async def close(self) -> None:
        pass

    @property
    def keys(self) -> list[str]:
        """What was asked, in order."""
        return [request.key for request in self.asked]

    def prompt(self, key: str) -> str:
        """All that was said in one call."""
        (request,) = (request for request in self.asked if request.key == key)
        return "\n".join(message.content for message in request.messages)


class Notes:
    """Keeps what a step tells people."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def __call__(self, name: str, text: str) -> None:
        self.told[name] = text


@functools.cache
def digits() -> Recipe:
    return load(shipped_folder() / "digits")


def ideation(model: Model, window: Window | None = None) -> RoleClient:
    return RoleClient(model, "ideation", IDEATION, 5, window)


def review(model: Model, window: Window | None = None) -> RoleClient:
    return RoleClient(model, "review", REVIEW, 5, window)


def proposal(**changes: Any) -> Proposal:
    return Proposal.model_validate_json(json.dumps({**PROPOSAL, **changes}))


def an_idea(number: int = 3, **changes: Any) -> Idea:
    return Idea(
        idea_id=idea_id_of(number),
        number=number,
        round=1,
        proposal=proposal(**changes),
        model="scripted",
        seed=5,
    )


def a_task(number: int = 9, **changes: Any) -> ProposalTask:
    archive = tuple(
        ArchiveEntry(idea_id=idea_id_of(n), title=f"T{n}", summary=f"S{n}", finding="decline")
        for n in range(1, min(number, 4))
    )
    task = ProposalTask(
        idea_id=idea_id_of(number), number=number, round=1, feedback="", archive=archive, scores=()
    )
    return task.model_copy(update=changes)


def papers(count: int, words: int = 20) -> tuple[Reference, ...]:
    return tuple(
        Reference(
            paper_id=f"arxiv:{n}", title=f"Paper {n}", abstract=f"abstract-{n} " * words, year=2000
        )
        for n in range(1, count + 1)
    )


def a_leader(**changes: Any) -> Leader:
    return Leader(
        idea_id="idea-0002", proposal=proposal(**changes), effect="accuracy 0.93, +0.02 (p 0.01)"
    )
