"""One line of a playbook: a recorded reply. The file's format is in recipes/README.md."""

from __future__ import annotations

import json
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from pydantic import Field, model_validator

from hpcscientist.records.base import Record
from hpcscientist.records.bounds import MOST
from hpcscientist.records.scores import NumberOdds

Call = tuple[int, str, int, int, int]  # idea, stage, ordinal, draft, repair

LARGEST = 2**30  # bytes of a playbook


class PlaybookEntry(Record):
    """One line of a playbook: which call it answers, and with what.

    `tokens_estimated` says that the counts given are estimates themselves. `odds` are those of
    the numbers in the answer's text, where the server told them.
    """

    idea: int = Field(ge=0)  # 0: asked for the campaign, before its first idea
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
    """Say that a stage is none, with the nearest that is."""
    close = get_close_matches(name, known, n=1)
    mend = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
    return f"unknown stage {name!r}; {mend}"
