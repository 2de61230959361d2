"""Papers and code in the library, search results, surveys, and concept profiles."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hpcscientist.records.base import Prose, Record, Scored
from hpcscientist.records.idea import Score

SourceKind = Literal[
    "pdf", "bibtex", "arxiv", "semantic_scholar", "openalex", "latex", "code", "online"
]
SearchBy = Literal["keyword", "embedding", "both"]


class Section(Record):
    """A section of a paper; `heading` is "" if it has none."""

    heading: str
    text: str


class Formula(Record):
    """A formula as text: LaTeX if the source has it, else as printed.

    `context` is the sentence before it, or the text's description of it.
    """

    text: str
    section: str = ""
    context: str = ""


class Paper(Record):
    """One paper. `origin` names its file and the record in it: "refs.bib:12". If several sources'
    records were merged, it names all of them, separated by "; ".

    `paper_id` is "doi:…", "arxiv:…" (without version), "s2:…", "openalex:…", or "title:" and a
    hash of title, year and first author. `references` are ids if the source has them, else the
    entries as printed. `citations` counts the papers that cite this one.
    """

    paper_id: str = Field(min_length=1)
    title: str = Field(min_length=1)
    abstract: str = ""
    authors: tuple[str, ...] = ()
    year: int | None = None
    venue: str = ""
    doi: str = ""
    arxiv_id: str = ""
    url: str = ""
    citations: int | None = Field(default=None, ge=0)
    sections: tuple[Section, ...] = ()
    formulas: tuple[Formula, ...] = ()
    references: tuple[str, ...] = ()
    source: SourceKind
    origin: str


class Symbol(Record):
    """A function, method or class of a reference repository. Lines count from 1, both included.

    `name` is qualified within its file ("Net.forward"); `file` is relative to the repository.
    """

    repository: str
    file: str
    first_line: int = Field(ge=1)
    last_line: int = Field(ge=1)
    name: str
    kind: Literal["function", "method", "class"]
    signature: str
    docstring: str = ""
    code: str

    @property
    def symbol_id(self) -> str:
        """The id that later stages cite: repository, file and lines."""
        return f"{self.repository}/{self.file}:{self.first_line}-{self.last_line}"


class TermWeight(Record):
    """The contribution of one query word in one field to a hit's keyword score."""

    term: str
    field: Literal["title", "abstract", "body"]
    weight: float


class Why(Record):
    """Why a search returned a hit. Fields of a search that did not find it are None.

    Each search has its own ranks, from 1. `cosine` is between query and paper.
    """

    terms: tuple[TermWeight, ...] = ()
    keyword_rank: int | None = None
    keyword_score: float | None = None
    embedding_rank: int | None = None
    cosine: float | None = None


class Hit(Record):
    """A paper that a search found. `score` only orders the hits of one search."""

    paper_id: str
    title: str
    abstract: str
    year: int | None
    origin: str
    score: float
    why: Why = Why()


class FormulaHit(Record):
    """A formula that a search found, with its paper."""

    formula_id: str  # paper_id, "#f" and the formula's number in the paper from 1
    paper_id: str
    title: str
    formula: Formula


class SymbolHit(Record):
    """A piece of reference code that a search found."""

    symbol: Symbol
    score: float


# Results of a literature survey (Dolphin, arXiv 2501.03916, 3.1), and concept records.


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
    """A retrieved paper with its scores; `kept` if the proposer sees it (`literature.ranking`).

    Scores are None if the model gave no usable reply. Such a paper is normally kept, but ranked
    last: a failed judgement is no evidence against it. The expected scores are computed from the
    model's odds, None if the server reported none. `quantile` is the share of the survey's judged
    papers that are no better. `queries` are the queries that found it.
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
    """A survey. `papers` are all retrieved papers: the kept ones first, in order of rank."""

    attributes: TaskAttributes
    queries: tuple[str, ...]
    papers: tuple[RankedPaper, ...]
    library: str  # fingerprint of the searched library; "" for none
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> tuple[RankedPaper, ...]:
        """The papers that the proposer sees."""
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
    """A concept profile, cited by later stages (AI-Researcher, resource analyst).

    Formula and code are looked up in the library by id; None if it has none.
    """

    name: str
    definition: str
    papers: tuple[str, ...] = ()
    formula_id: str | None = None
    formula: str | None = None
    code_id: str | None = None
    code: str | None = None
