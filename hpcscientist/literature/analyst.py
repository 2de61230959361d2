"""The resource analyst (AI-Researcher, 3.1.1): an idea's concepts, with formulas and code.

The analyst splits an idea into atomic concepts. For each concept it finds a paper's formula and
the code that implements it in the library and links the two, so that the coder works from sources
instead of from memory. The model only picks ids among search results; formula and code are copied
from the library, so neither can be invented.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from hpcscientist.config.settings import LiteratureSettings, Settings
from hpcscientist.literature import material
from hpcscientist.literature.material import together
from hpcscientist.models.prompting.fitting import from_the_end, lines_from_the_end, of_template
from hpcscientist.models.prompting.naming import found_ids
from hpcscientist.models.prompting.prompts import line
from hpcscientist.models.reply_limits import Limit, Limits
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient
from hpcscientist.models.stage import (
    SUMMARY_SIZE,
    TITLE_SIZE,
    Calls,
    Expected,
    Kind,
    Means,
    Sample,
    Stage,
    filler,
)
from hpcscientist.ports import Library
from hpcscientist.records.base import Record
from hpcscientist.records.idea import Idea
from hpcscientist.records.literature import (
    Concept,
    ConceptRecord,
    ConceptsReply,
    FormulaHit,
    Hit,
    ProfileReply,
    SymbolHit,
)

T = TypeVar("T")

CANDIDATES = 5  # per concept: formulas, symbols and papers, each
FORMULA, CODE = 2000, 8000  # characters of a record's formula and code
_CODE_SHOWN, _CONTEXT, _ID = 2000, 300, 300
_NAME, _DEFINITION, _QUERY = 120, 1000, 200


@dataclass(frozen=True, slots=True)
class _Subject:
    """The text that is split into concepts. `details` are the least informative, and cut first."""

    idea_id: str
    number: int
    title: str
    summary: str
    method: str
    details: str


class Analyst:
    """Profiles the concepts of an idea; `review` is the client of the reviewer model."""

    def __init__(
        self, review: RoleClient, library: Library | None, settings: LiteratureSettings
    ) -> None:
        self._client, self._library, self._most = review, library, settings.concepts

    async def analyse(self, idea: Idea) -> tuple[ConceptRecord, ...]:
        """Return the profiles of an idea's concepts, at most `settings.concepts`.

        An unusable reply is no error: an idea that is not split counts as one concept, and a
        concept without a profile keeps only its definition. Raises EndpointError and whatever
        else the model raises, and LibraryError for a damaged library.
        """
        of = idea.proposal
        return await self._analyse(
            _Subject(
                *(idea.idea_id, idea.number, of.title, of.summary, of.method),
                details=of.technical_details,
            )
        )

    async def _analyse(self, subject: _Subject) -> tuple[ConceptRecord, ...]:
        if self._most == 0:
            return ()
        concepts = await self._split(subject)
        return await together(
            [
                partial(self._profile, subject, number, concept)
                for number, concept in enumerate(concepts, start=1)
            ]
        )

    async def _split(self, subject: _Subject) -> tuple[Concept, ...]:
        prompt = of_template(
            "concepts",
            (
                lines_from_the_end("details", material.block(subject.details, CODE)),
                lines_from_the_end("method", material.block(subject.method, CODE)),
            ),
            title=line(subject.title, material.TITLE),
            summary=line(subject.summary, material.ABSTRACT),
            count=self._most,
        )
        call = CallPurpose(subject.idea_id, subject.number, "concepts")
        try:
            reply = await self._client.ask(
                call, ConceptsReply, prompt, {"concepts": Limit(least=1, most=self._most)}
            )
        except UNANSWERED:
            return (_whole(subject),)
        named: dict[str, Concept] = {}
        for concept in map(_tidy, reply.concepts):
            if concept is not None:
                named.setdefault(concept.name.casefold(), concept)
        return tuple(named.values())[: self._most] or (_whole(subject),)

    async def _profile(self, subject: _Subject, number: int, concept: Concept) -> ConceptRecord:
        bare = ConceptRecord(name=concept.name, definition=concept.definition)
        found = await asyncio.to_thread(_search, self._library, concept)
        if not found:
            return bare
        call = CallPurpose(subject.idea_id, subject.number, "profile", ordinal=number)
        prompt = of_template(
            "profile",
            (
                from_the_end("papers", found.shown_papers()),
                from_the_end("symbols", found.shown_symbols()),
                from_the_end("formulas", found.shown_formulas()),
            ),
            concept=concept,
        )
        try:
            reply = await self._client.ask(call, ProfileReply, prompt, found.limits())
        except UNANSWERED:
            return bare
        return found.record(bare, reply)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The search results for a concept, by the ids that the prompt shows."""

    formulas: dict[str, FormulaHit]
    symbols: dict[str, SymbolHit]
    papers: dict[str, Hit]

    def __bool__(self) -> bool:
        return bool(self.formulas or self.symbols or self.papers)

    def limits(self) -> Limits:
        """Return limits that allow the ids in the prompt, and null for formula and code."""
        ids = {"formula": tuple(self.formulas), "code": tuple(self.symbols)}
        shown = {name: Limit(values=of) for name, of in ids.items() if of}
        return {**shown, "papers": Limit(values=tuple(self.papers), most=len(self.papers))}

    def shown_formulas(self) -> list[dict[str, str]]:
        return [
            {
                "id": shown,
                "title": line(hit.title, material.TITLE),
                "context": line(hit.formula.context, _CONTEXT),
                "text": material.block(hit.formula.text, FORMULA),
            }
            for shown, hit in self.formulas.items()
        ]

    def shown_symbols(self) -> list[dict[str, str]]:
        return [
            {"id": shown, "code": material.block(hit.symbol.code, _CODE_SHOWN)}
            for shown, hit in self.symbols.items()
        ]

    def shown_papers(self) -> list[dict[str, str]]:
        return [
            {
                "id": shown,
                "title": material.title_of(hit),
                "abstract": material.abstract_of(hit),
            }
            for shown, hit in self.papers.items()
        ]

    def record(self, bare: ConceptRecord, reply: ProfileReply) -> ConceptRecord:
        """Return the profile that a reply selects; ids that were not shown are dropped."""
        formula, symbol = _pick(self.formulas, reply.formula), _pick(self.symbols, reply.code)
        chosen = [_pick(self.papers, paper_id) for paper_id in reply.papers]
        papers = [hit.paper_id for hit in chosen if hit is not None]
        if formula is not None:
            papers.append(formula.paper_id)
        return ConceptRecord(
            name=bare.name,
            definition=line(reply.definition, _DEFINITION) or bare.definition,
            papers=tuple(dict.fromkeys(papers)),
            formula_id=formula.formula_id if formula else None,
            formula=_bounded(formula.formula.text, FORMULA) if formula else None,
            code_id=symbol.symbol.symbol_id if symbol else None,
            code=_bounded(symbol.symbol.code, CODE) if symbol else None,
        )


def _search(library: Library | None, concept: Concept) -> _Candidates:
    """Search for a concept's query, and for its name if that finds nothing."""
    found = _Candidates({}, {}, {})
    for words in dict.fromkeys((concept.query, concept.name)):
        if library is not None and not found:
            found = _Candidates(
                {_shown(hit.formula_id): hit for hit in library.formulas(words, CANDIDATES)},
                {_shown(hit.symbol.symbol_id): hit for hit in library.symbols(words, CANDIDATES)},
                {_shown(hit.paper_id): hit for hit in library.search(words, CANDIDATES)},
            )
    return found


def _shown(name: str) -> str:
    """Return an id as the prompt shows it; it is part of a heading there."""
    return line(name, _ID).replace("`", "'")


def _pick(candidates: dict[str, T], chosen: str | None) -> T | None:
    return next((candidates[name] for name in found_ids([chosen or ""], candidates)), None)


def _tidy(concept: Concept) -> Concept | None:
    name = line(concept.name, _NAME)
    if not name:
        return None
    return Concept(
        name=name,
        definition=line(concept.definition, _DEFINITION) or name,
        query=line(concept.query, _QUERY) or name,
    )


def _whole(subject: _Subject) -> Concept:
    """Return an idea as a single concept; a blank title becomes "…", a blank summary the title."""
    title = line(subject.title, _NAME) or "…"
    summary = line(subject.summary, _DEFINITION) or title
    return Concept(name=title, definition=summary, query=line(title, _QUERY))


def _bounded(text: str, limit: int) -> str:
    """Return a text unchanged, or its first whole lines if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    head, found, _ = text[:limit].rpartition("\n")
    return head if found else text[:limit]


class ConceptsStage(Stage[Analyst]):
    """The concepts of an idea, looked up once per idea."""

    name = "concepts"
    kinds = (Kind("concepts", "review", ConceptsReply), Kind("profile", "review", ProfileReply))
    reads_library = True

    def applies(self, settings: Settings, has_library: bool) -> bool:
        """Return whether the settings ask for concepts and there is a library."""
        return settings.literature.concepts > 0 and has_library

    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return how many model calls of each kind to expect."""
        settings = expected.settings
        profiles = settings.ideas * settings.literature.concepts
        return Calls.of("concepts", settings.ideas), Calls.of("profile", profiles)

    def open(self, means: Means) -> Analyst:
        """Return the analyst for the campaign's library."""
        return Analyst(means.client("review"), means.library, means.settings.literature)

    def answers(self, sample: Sample) -> Mapping[str, Record]:
        """Return a reply with one concept; without one, no profile call would be weighed."""
        concept = Concept(
            name=filler(TITLE_SIZE), definition=filler(SUMMARY_SIZE), query=filler(TITLE_SIZE)
        )
        return {"concepts": ConceptsReply(concepts=(concept,))}

    async def weigh(self, opened: Analyst, sample: Sample) -> None:
        """Look up the concepts of the sample's idea."""
        await opened.analyse(sample.idea)


CONCEPTS = ConceptsStage()
