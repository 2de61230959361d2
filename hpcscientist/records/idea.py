"""Ideas, their lineage, and the versions of their code."""

from __future__ import annotations

import hashlib
from typing import Annotated

from pydantic import Field

from hpcscientist.records.base import Record

BASELINE_ID = "baseline"

Score = Annotated[int, Field(ge=1, le=10)]
KnobValue = int | float | str | bool


class Proposal(Record):
    """What a model (or the control arm) proposes; the reply schema of stage `propose`."""

    title: str = Field(min_length=1, max_length=200)
    hypothesis: str = Field(min_length=1)
    method: str = Field(min_length=1)
    experiment_plan: str = Field(min_length=1)
    summary: str = Field(
        min_length=1, description="Two or three sentences; compared with earlier ideas."
    )
    parent_ids: tuple[str, ...] = ()
    interestingness: Score = 5
    feasibility: Score = 5
    novelty: Score = 5


class Idea(Record):
    """A proposal with its place in the campaign and where it came from.

    `shown` lists the ideas whose findings the proposer saw. `knobs` is set by the control
    arm only.
    """

    idea_id: str
    number: int = Field(ge=1)
    round: int = Field(ge=1)
    proposal: Proposal
    model: str
    seed: int
    shown: tuple[str, ...] = ()
    knobs: dict[str, KnobValue] | None = None


class Attempt(Record):
    """One version of an idea's code, as it was snapshotted."""

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
