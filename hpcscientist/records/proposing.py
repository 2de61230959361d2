"""What a proposer is given and what it returns."""

from __future__ import annotations

from pydantic import Field

from hpcscientist.records.base import Record
from hpcscientist.records.idea import KnobValue, Proposal


class ArchiveEntry(Record):
    """An earlier idea of the campaign; `finding` is a short phrase such as "in progress"."""

    idea_id: str
    title: str
    summary: str
    finding: str


class PastScore(Record):
    """An earlier idea's mean primary metric; None where it was not scored."""

    idea_id: str
    value: float | None


class ProposalTask(Record):
    """What is known when idea `number` is proposed, in order of idea numbers.

    `shown` lists the ideas whose findings stand in `feedback` or `archive`.
    """

    idea_id: str
    number: int = Field(ge=1)
    round: int = Field(ge=1)
    feedback: str
    archive: tuple[ArchiveEntry, ...]
    scores: tuple[PastScore, ...]
    shown: tuple[str, ...] = ()


class Proposed(Record):
    """A proposal; `shown` lists the ideas whose findings the proposer was told."""

    proposal: Proposal
    shown: tuple[str, ...] = ()
    knobs: dict[str, KnobValue] | None = None
