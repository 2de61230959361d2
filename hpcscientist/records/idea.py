"""Ideas with their lineage, and the versions of their code."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import Field, field_validator

from hpcscientist.files.rundir import SURVEY
from hpcscientist.files.text import one_line, printable
from hpcscientist.records.base import Prose, Record

BASELINE_ID = "baseline"
BASELINE_ATTEMPT = 1
SURVEY_ID = SURVEY  # the subject of model calls for the whole campaign, before its first idea
CAMPAIGN_ID = "campaign"  # the subject of model calls for the paper on the whole campaign

# Who proposes an idea: a language model, or the control arm (a search over the recipe's knobs).
Arm = Literal["model", "control"]

Mode = Literal["guided", "open", "follow-up"]

# Why an attempt was made: a first version, a fix, a completion after review, an improvement, or a
# further run.
AttemptKind = Literal[
    "draft", "debug", "complete", "improve", "ablation", "sensitivity", "follow-up"
]

Score = Annotated[int, Field(ge=1, le=10)]
KnobValue = int | float | str | bool


LONGEST_TITLE = 200  # characters


class Proposal(Record):
    """What a model (or the control arm) proposes; the reply schema of stage `propose`."""

    title: str = Field(min_length=1, max_length=LONGEST_TITLE)
    hypothesis: Prose = Field(min_length=1)
    method: Prose = Field(min_length=1)
    experiment_plan: Prose = Field(min_length=1)
    summary: Prose = Field(
        min_length=1, description="Two or three sentences; compared with earlier ideas."
    )
    parent_ids: tuple[str, ...] = ()
    motivation: Prose = ""
    technical_details: Prose = ""
    expected_outcome: Prose = ""
    risks: Prose = ""
    papers: tuple[str, ...] = Field(default=(), description="Ids of the papers it builds on.")
    interestingness: Score = 5
    feasibility: Score = 5
    novelty: Score = 5

    @field_validator("title", mode="before")
    @classmethod
    def _one_plain_line(cls, title: object) -> object:
        """Make the title one printable line: it goes into tables, files and terminals.

        A longer one is cut. Small models repeated it in every repair, which cost the idea.
        """
        return one_line(printable(title), LONGEST_TITLE) if isinstance(title, str) else title


class PromptRef(Record):
    """A call that led to an idea: its chat.jsonl's folder, its key there, the prompt's hash."""

    chat: str
    key: str
    prompt_sha256: str
    model: str


class Idea(Record):
    """A proposal with its place in the campaign and its origin.

    `shown` lists the ideas whose findings the proposer saw, `papers` the papers of the library
    that it saw. `direction` is the direction that this idea was given in its batch. Only the
    control arm sets `knobs`.
    """

    idea_id: str
    number: int = Field(ge=1)
    round: int = Field(ge=1)
    proposal: Proposal
    model: str
    seed: int
    shown: tuple[str, ...] = ()
    knobs: dict[str, KnobValue] | None = None
    mode: Mode = "open"
    direction: str = ""
    papers: tuple[str, ...] = ()
    prompts: tuple[PromptRef, ...] = ()

    @property
    def arm(self) -> Arm:
        """The arm that proposed it."""
        return "model" if self.knobs is None else "control"


class Attempt(Record):
    """One saved version of an idea's code."""

    idea_id: str
    number: int = Field(ge=1)
    code_hash: str
    note: str


def idea_id_of(number: int) -> str:
    """Return the id of the idea with this number, counted from 1."""
    return f"idea-{number:04d}"


def idea_seed(seed: int, number: int) -> int:
    """Return an idea's own seed (31 bits) from the campaign's seed and the idea's number."""
    digest = hashlib.sha256(f"{seed}/{number}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
