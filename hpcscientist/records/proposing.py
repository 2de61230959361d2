"""A proposer's tasks and proposals, and the judgements of an idea before code is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from pydantic import Field

from hpcscientist.records.base import Prose, Record, Scored
from hpcscientist.records.idea import Idea, KnobValue, Mode, Proposal, Score
from hpcscientist.records.literature import ConceptRecord
from hpcscientist.records.objective import ObjectiveValue

# The steps of proposing, and the checks before code is written: replies and records.

Decision = Literal["novel", "not_novel", "undecided"]


class Direction(Record):
    """One direction in which an idea may lie."""

    title: Prose = Field(min_length=1, max_length=200)
    summary: Prose = Field(min_length=1)


class DirectionsReply(Record):
    """The reply schema of stage `directions`: a divergent batch."""

    directions: tuple[Direction, ...] = Field(min_length=1)


class Judgement(Record):
    """One direction judged; part of a reply."""

    direction: int = Field(ge=1, description="Its number in the list.")
    novelty: Score
    soundness: Score
    potential: Score
    reason: Prose = Field(min_length=1)


class ConvergeReply(Scored):
    """The reply schema of stage `converge`: the directions of a batch, judged."""

    judgements: tuple[Judgement, ...] = Field(min_length=1)


class ReflectReply(Record):
    """The reply schema of stage `reflect`. Without a proposal the one before stands."""

    remarks: Prose = Field(
        min_length=1, description="What is weak about the idea, or that it is good."
    )
    done: bool = Field(description="True if the idea needs no further round.")
    proposal: Proposal | None = None


class Citation(Record):
    """A paper of the library as evidence; part of a reply."""

    paper_id: str = Field(min_length=1)
    why: Prose = Field(min_length=1, description="What it shows, in one sentence.")


class NoveltyReply(Record):
    """The reply schema of stage `novelty`: a decision with evidence, or another search."""

    decision: Literal["novel", "not_novel", "undecided", "search"]
    query: Prose = Field(
        default="", description="What to search for next, if the decision is search."
    )
    evidence: tuple[Citation, ...] = ()
    reason: Prose = Field(min_length=1)


class FeasibilityReply(Record):
    """The reply schema of stage `feasibility`: what one full trial of the idea needs."""

    seconds: float = Field(ge=0, description="Seconds of one full trial, estimated.")
    memory_mb: float = Field(ge=0, description="Memory of one trial in MiB, estimated.")
    files: tuple[Prose, ...] = Field(default=(), description="Files of the reference that change.")
    data: tuple[Prose, ...] = Field(default=(), description="Data it needs that the recipe lacks.")
    packages: tuple[Prose, ...] = Field(
        default=(), description="Imports it needs beyond those there."
    )
    fits: bool
    reason: Prose = Field(min_length=1)


class Vetted(Record):
    """An idea that passed vetting, with its concepts as found in the library."""

    idea: Idea
    concepts: tuple[ConceptRecord, ...] = ()


class Verdict(Record, ABC):
    """A judge's verdict on an idea before code is written."""

    @property
    @abstractmethod
    def objection(self) -> str | None:
        """Why the idea is rejected, in one line; None if it is not."""


class NoveltyVerdict(Verdict):
    """Whether an idea is new, judged by the library. `evidence` cites papers that the judge saw."""

    decision: Decision
    reason: str
    evidence: tuple[Citation, ...] = ()
    queries: tuple[str, ...] = ()
    rounds: int = 0
    library: str = ""

    @property
    def objection(self) -> str | None:
        """Why the idea is rejected; None if it is not."""
        if self.decision != "not_novel":
            return None
        cited = [f"{paper.paper_id} ({paper.why.rstrip('.')})" for paper in self.evidence]
        return f"not novel: {'; '.join([*cited, self.reason])}"


class FeasibilityVerdict(Verdict):
    """Whether an idea fits the recipe's limits. `problems` says what does not fit, with figures."""

    fits: bool
    problems: tuple[str, ...] = ()
    reason: str
    seconds: float | None = None
    memory_mb: float | None = None

    @property
    def objection(self) -> str | None:
        """Why the idea is rejected; None if it is not."""
        if self.fits:
            return None
        return f"set aside, not feasible: {'; '.join(self.problems) or self.reason}"


class ArchiveEntry(Record):
    """An earlier idea of the campaign; `finding` is a short phrase such as "in progress"."""

    idea_id: str
    title: str
    summary: str
    finding: str


class PastScore(ObjectiveValue):
    """An earlier idea's knobs and what it measured, as means over its seeds, if it was scored."""

    idea_id: str
    number: int = Field(ge=1)
    knobs: dict[str, KnobValue]


class Reference(Record):
    """A paper of the survey, as shown in a prompt."""

    paper_id: str
    title: str
    abstract: str
    year: int | None = None


class Leader(Record):
    """The best idea so far, to be developed further in mode `follow-up`; `effect` is a phrase."""

    idea_id: str
    proposal: Proposal
    effect: str


class Repeated(Record):
    """A proposal that repeats an earlier idea, and the `reason` for that judgement.

    Title and summary are the earlier idea's; "" if it belongs to another campaign.
    """

    proposal: Proposal
    title: str
    summary: str
    reason: str


class ProposalTask(Record):
    """The input for proposing idea `number`. Records in it are in order of idea numbers.

    `shown` lists the ideas whose findings are in `feedback` or `archive`. `direction` is this
    idea's direction, `others` the titles of the directions of the rest of its batch.
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
    """The input for choosing a batch's distinct directions; `first` is its first idea's task."""

    first: ProposalTask
    numbers: tuple[int, ...] = Field(min_length=1)


class Proposed(Record):
    """A proposal; `shown` lists the ideas whose findings the proposer saw."""

    proposal: Proposal
    shown: tuple[str, ...] = ()
    knobs: dict[str, KnobValue] | None = None
