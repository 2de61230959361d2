"""What a survey of the literature finds (Dolphin, arXiv 2501.03916, 3.1), and concept records."""

from __future__ import annotations

from pydantic import Field

from hpcscientist.records.base import Prose, Record
from hpcscientist.records.idea import Score
from hpcscientist.records.scores import Scored


class TaskAttributes(Record):
    """The task attributes of a topic; the reply schema of stage `attributes`."""

    inputs: Prose = Field(min_length=1, description="What a method of this task is given.")
    outputs: Prose = Field(min_length=1, description="What it must return.")
    other: tuple[Prose, ...] = Field(
        default=(), description="Other properties that set the task apart, a few words each."
    )


class QueriesReply(Record):
    """The reply schema of stage `queries`: what to search the library for."""

    queries: tuple[Prose, ...] = Field(min_length=1)


class RankReply(Scored):
    """The reply schema of stage `rank`: how well one paper fits."""

    topic: Score = Field(description="How close its subject is to the topic, from 1 to 10.")
    attributes: Score = Field(description="How well its task has the attributes, from 1 to 10.")
    reason: Prose = Field(min_length=1, description="Why, in one sentence.")


class RankedPaper(Record):
    """A retrieved paper with its scores; `kept` if it is to be built on (`literature.ranking`).

    Scores are None where the model gave no usable reply; such a paper is kept, but stands last:
    a failed judgement is no evidence against it. Expectations of both are those of the model's
    odds, None where it told none; `quantile` is the share of the survey's judged papers that are
    no better. `queries` found it.
    """

    paper_id: str
    title: str
    abstract: str
    year: int | None
    topic: Score | None
    attributes: Score | None
    reason: str
    kept: bool
    queries: tuple[str, ...] = ()
    expected_topic: float | None = None
    expected_attributes: float | None = None
    quantile: float | None = None


class Survey(Record):
    """A survey. `papers` are all that were retrieved, those kept first, best first."""

    attributes: TaskAttributes
    queries: tuple[str, ...]
    papers: tuple[RankedPaper, ...]
    library: str  # fingerprint of the library that was searched; "" for none
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> tuple[RankedPaper, ...]:
        """The papers that the proposer is shown."""
        return tuple(paper for paper in self.papers if paper.kept)


class Concept(Record):
    """One atomic concept of an idea, as the model names it; part of a reply."""

    name: Prose = Field(min_length=1)
    definition: Prose = Field(min_length=1)
    query: Prose = Field(min_length=1, description="Words to search papers and code for.")


class ConceptsReply(Record):
    """The reply schema of stage `concepts`: an idea split into atomic concepts."""

    concepts: tuple[Concept, ...] = Field(min_length=1)


class ProfileReply(Record):
    """The reply schema of stage `profile`: which of the candidates belong to a concept."""

    definition: Prose = Field(min_length=1)
    formula: str | None = Field(default=None, description="Id of the formula, or null.")
    code: str | None = Field(default=None, description="Id of the code, or null.")
    papers: tuple[str, ...] = Field(default=(), description="Ids of the papers that define it.")


class ConceptRecord(Record):
    """A concept profile (AI-Researcher, resource analyst): what later stages cite.

    Formula and code are those of the library, looked up by id; None where it has none.
    """

    name: str
    definition: str
    papers: tuple[str, ...] = ()
    formula_id: str | None = None
    formula: str | None = None
    code_id: str | None = None
    code: str | None = None
