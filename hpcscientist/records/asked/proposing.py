"""What a proposer is given and what it returns."""

from __future__ import annotations

from pydantic import Field

from hpcscientist.records.asked.vetting import Direction
from hpcscientist.records.base import Record
from hpcscientist.records.idea import KnobValue, Mode, Proposal


class ArchiveEntry(Record):
    """An earlier idea of the campaign; `finding` is a short phrase such as "in progress"."""

    idea_id: str
    title: str
    summary: str
    finding: str


class PastScore(Record):
    """An earlier idea's mean primary metric with its knobs; None where it was not scored."""

    idea_id: str
    number: int = Field(ge=1)
    knobs: dict[str, KnobValue]
    value: float | None


class Reference(Record):
    """A paper of the survey as a prompt shows it."""

    paper_id: str
    title: str
    abstract: str
    year: int | None = None


class Leader(Record):
    """The best idea so far, to be developed in mode `follow-up`; `effect` is a phrase."""

    idea_id: str
    proposal: Proposal
    effect: str


class Repeated(Record):
    """An idea that repeats an earlier one, and the `reason` why it is thought to.

    Title and summary are the earlier one's, "" where that is another campaign's.
    """

    proposal: Proposal
    title: str
    summary: str
    reason: str


class ProposalTask(Record):
    """What is known when idea `number` is proposed, in order of idea numbers.

    `shown` lists the ideas whose findings stand in `feedback` or `archive`. `direction` is what
    this idea is to work out, `others` the titles of those that the rest of its batch works out.
    """

    idea_id: str
    number: int = Field(ge=1)
    round: int = Field(ge=1)
    feedback: str
    archive: tuple[ArchiveEntry, ...]
    scores: tuple[PastScore, ...]
    shown: tuple[str, ...] = ()
    mode: Mode = "open"
    instruction: str = ""
    references: tuple[Reference, ...] = ()
    direction: Direction | None = None
    others: tuple[str, ...] = ()
    leader: Leader | None = None


class BatchTask(Record):
    """What is known when a batch of ideas is to be told apart. `first` is asked for it."""

    first: ProposalTask
    numbers: tuple[int, ...] = Field(min_length=1)


class Proposed(Record):
    """A proposal; `shown` lists the ideas whose findings the proposer was told."""

    proposal: Proposal
    shown: tuple[str, ...] = ()
    knobs: dict[str, KnobValue] | None = None
