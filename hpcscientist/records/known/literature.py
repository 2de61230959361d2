"""Papers and code as the library holds them, and what a search in it finds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hpcscientist.records.base import Record

SourceKind = Literal[
    "pdf", "bibtex", "arxiv", "semantic_scholar", "openalex", "latex", "code", "online"
]
SearchBy = Literal["keyword", "embedding", "both"]


class Section(Record):
    """A part of a paper under its heading; "" where it has none."""

    heading: str
    text: str


class Formula(Record):
    """A formula as text: LaTeX where the source has it, else as it is printed.

    `context` is the sentence before it, or what the text says of it.
    """

    text: str
    section: str = ""
    context: str = ""


class Paper(Record):
    """One paper. `origin` names its file, and the record in it: "refs.bib:12"; all of them, with
    "; " between, where it was made of several sources' records.

    `paper_id` is "doi:…", "arxiv:…" (without version), "s2:…", "openalex:…", or "title:" and a
    hash of title, year and first author. `references` are ids where the source gives them, else
    the entries as printed. `citations` counts the papers that cite this one.
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
    """A function, method or class of a reference repository. Lines count from 1, both inside.

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
        """What later stages cite: repository, file and lines."""
        return f"{self.repository}/{self.file}:{self.first_line}-{self.last_line}"


class TermWeight(Record):
    """What one word of the query adds to a hit's keyword score, and in which field."""

    term: str
    field: Literal["title", "abstract", "body"]
    weight: float


class Why(Record):
    """Why a hit is one. None where that search did not find it.

    Ranks count from 1 in each search alone; `cosine` is between query and paper.
    """

    terms: tuple[TermWeight, ...] = ()
    keyword_rank: int | None = None
    keyword_score: float | None = None
    embedding_rank: int | None = None
    cosine: float | None = None


class Hit(Record):
    """A paper that a search found. `score` orders the hits of one search and means no more."""

    paper_id: str
    title: str
    abstract: str
    year: int | None
    origin: str
    score: float
    why: Why = Why()


class FormulaHit(Record):
    """A formula that a search found, with the paper that it is from."""

    formula_id: str  # paper_id, "#f" and the formula's number in the paper from 1
    paper_id: str
    title: str
    formula: Formula


class SymbolHit(Record):
    """A piece of reference code that a search found."""

    symbol: Symbol
    score: float
