"""Calls to language models: requests, replies, and recorded replies (playbooks)."""

from __future__ import annotations

import json
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any, Literal

from pydantic import Field, model_validator

from hpcscientist.records.base import MOST, NumberOdds, Record

Role = str
"""The role whose model answers: `ideation`, `code`, `review`, or one that a stage defines."""


class Message(Record):
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


class ModelRequest(Record):
    """A request. (`subject`, `key`) identifies it within a campaign.

    `subject` is what it is about: an idea, the survey, a paper, a review. The subject's folder has
    the record of its calls.

    `stage` is the kind of call (propose, code, debug, …). `ordinal` counts the stage's calls for
    this subject from 1. `draft` distinguishes concurrent requests, from 0. `repair` counts the
    repairs of one call from 1 (0: the first try). `role` says whose model is asked.
    `reply_schema` is a JSON schema that the reply must fit; None means free text. `max_tokens`
    bounds the reply, thinking included. `top_p` None leaves it to the server. `ignore_eos` makes a
    server that supports it (vLLM) generate until that bound, for measurements.
    `question` identifies the request if `messages` are a shortened form of it: replies are recorded
    under it. If it is empty, the messages are the question.
    `begun` is the beginning of the reply, for servers that can continue from it; the reply's text
    does not include it.
    `scale` is the highest value of the scores, from 1, whose probabilities are wanted; 0: none.
    """

    subject: str
    stage: str
    role: Role = "review"
    ordinal: int = Field(default=1, ge=1)
    draft: int = Field(default=0, ge=0)
    repair: int = Field(default=0, ge=0)
    messages: tuple[Message, ...]
    schema_name: str | None = None
    reply_schema: dict[str, Any] | None = None
    temperature: float = 0.7
    top_p: float | None = None
    max_tokens: int = 4096
    seed: int | None = None
    ignore_eos: bool = False
    question: str = ""
    begun: str = ""
    scale: int = Field(default=0, ge=0)

    @property
    def key(self) -> str:
        """The call's name within its subject."""
        name = f"{self.stage}/{self.ordinal}"
        name = f"{name}/draft{self.draft}" if self.draft else name
        return f"{name}/repair{self.repair}" if self.repair else name


class ModelReply(Record):
    """A reply. `tokens_estimated` is true where the server gave no counts.

    `text` is the answer, `reasoning` what the model thought before it. `finish` says why it
    ended, in the server's words: `stop`, or `length` where it was cut off; "" is unknown.
    `odds` are those of the numbers in `text`, where a `scale` was asked and the server told them.
    """

    text: str
    reasoning: str = ""
    finish: str = ""
    model: str
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    tokens_estimated: bool
    latency_s: float = Field(ge=0)
    odds: tuple[NumberOdds, ...] = ()


# One line of a playbook: a recorded reply. The file's format is in recipes/README.md.

Call = tuple[int, str, int, int, int]  # idea, stage, ordinal, draft, repair

LARGEST = 2**30  # bytes of a playbook


class PlaybookEntry(Record):
    """One line of a playbook: a call and its answer.

    `tokens_estimated` says that the token counts are estimates. `odds` are the probabilities of the
    numbers in the answer's text, if the server reported them.
    """

    idea: int = Field(ge=0)  # 0: a call for the campaign, before its first idea
    stage: str = Field(min_length=1)
    ordinal: int = Field(default=1, ge=1)
    draft: int = Field(default=0, ge=0)
    repair: int = Field(default=0, ge=0)
    reply: dict[str, Any] | None = None
    text: str | None = None
    prompt_tokens: int | None = Field(default=None, ge=0, le=MOST)
    completion_tokens: int | None = Field(default=None, ge=0, le=MOST)
    tokens_estimated: bool = False
    reasoning: str = ""
    finish: str = "stop"
    odds: tuple[NumberOdds, ...] = ()

    @model_validator(mode="after")
    def _has_one_reply(self) -> PlaybookEntry:
        if (self.reply is None) == (self.text is None):
            raise ValueError("give either 'reply' or 'text'")
        return self

    @property
    def call(self) -> Call:
        """The call that this line answers."""
        return self.idea, self.stage, self.ordinal, self.draft, self.repair

    @property
    def answer(self) -> str:
        """The text of the reply."""
        return self.text if self.text is not None else json.dumps(self.reply, ensure_ascii=False)


def unknown_stage(name: str, known: Collection[str]) -> str:
    """Return an error message for an unknown stage, with the nearest known one."""
    close = get_close_matches(name, known, n=1)
    fix = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
    return f"unknown stage {name!r}; {fix}"
