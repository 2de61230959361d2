"""A survey of the literature before the first idea (Dolphin, arXiv 2501.03916, 3.1).

The model derives task attributes from the topic, and queries from both. The best hits lead to
more queries. The retrieved papers are scored, so that ideas start from papers on this task and
not on neighbouring tasks. If a model reply is unusable, a simple substitute is used, and a note
in the survey says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from hpcscientist.config.settings import LiteratureSettings, Settings
from hpcscientist.errors import ModelError
from hpcscientist.files.text import one_line
from hpcscientist.literature import material
from hpcscientist.literature.material import FoundPaper, merge
from hpcscientist.literature.ranking import Fit, ModelRanker, Ranker, WordRanker, kept, quantiles
from hpcscientist.models.embedding.keywords import terms
from hpcscientist.models.prompting.fitting import of_template
from hpcscientist.models.prompting.prompts import line
from hpcscientist.models.reply_limits import Limit
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient
from hpcscientist.models.stage import Calls, Expected, Kind, Means, Sample, Stage
from hpcscientist.ports import Library
from hpcscientist.recipe.schema import Topic
from hpcscientist.records.idea import SURVEY_ID
from hpcscientist.records.literature import (
    Hit,
    QueriesReply,
    RankedPaper,
    RankReply,
    Survey,
    TaskAttributes,
)

# Attributes and queries from the recipe's own words, for use without a model's reply.

_QUERY = 200  # characters


def own_attributes(topic: Topic) -> TaskAttributes:
    """Return the task attributes as the recipe states them."""
    return TaskAttributes(
        inputs=topic.inputs.strip() or "not stated",
        outputs=topic.outputs.strip() or "not stated",
        other=tuple(text.strip() for text in topic.attributes if text.strip()),
    )


def own_queries(topic: Topic, attributes: TaskAttributes | None = None) -> tuple[str, ...]:
    """Return queries made without a model: the title, then the attributes."""
    of = attributes or own_attributes(topic)
    return distinct([topic.title, *of.other, of.outputs, of.inputs])


def distinct(queries: Iterable[str], asked: Sequence[str] = ()) -> tuple[str, ...]:
    """Return cleaned queries without repeats, those in `asked`, and those without words."""
    seen = {query.casefold() for query in asked}
    kept = []
    for text in queries:
        query = line(text, _QUERY)
        if terms(query) and query.casefold() not in seen:
            seen.add(query.casefold())
            kept.append(query)
    return tuple(kept)


_PHRASE, _OTHERS = 300, 10  # characters of an attribute; how many other attributes
_ATTRIBUTES = 10  # as in the prompt
_DEEPEST = 4  # look at up to this multiple of the wanted papers for long enough abstracts
_NOT_RANKED = "not ranked: literature.ranking is off"
_BUILD = (
    "build one from papers on the topic with `hpcsci library build INPUT… --out DIR` and name it "
    "in literature.library"
)


class Surveyor:
    """Surveys a library. `ideation` writes the queries; `review` the attributes and scores.

    If a model is None, its substitutes are used, and papers are scored by their words. Every
    request uses SURVEY_ID, and nothing depends on the order in which replies arrive.
    """

    def __init__(
        self,
        ideation: RoleClient | None,
        review: RoleClient | None,
        library: Library | None,
        settings: LiteratureSettings,
        ranker: Ranker | None = None,
    ) -> None:
        self._ideation, self._review = ideation, review
        self._library, self._settings = library, settings
        self._ranker = ranker or (ModelRanker(review) if review else WordRanker())

    async def survey(self, topic: Topic) -> Survey:
        """Survey the literature on a topic.

        Neither an unusable reply nor a library without hits is an error. Raises EndpointError and
        whatever else the model raises, and LibraryError for a damaged library.
        """
        library = self._library
        if library is None:
            return _empty(topic, "", f"there is no library of papers; {_BUILD}")
        # A library that asks services may hold no papers and still find some.
        if not len(library) and not await self._search(library, own_queries(topic)[:1]):
            return _empty(topic, library.fingerprint, f"the library holds no papers; {_BUILD}")
        notes: list[str] = []
        attributes = await self._attributes(topic, notes)
        queries, found = await self._retrieve(library, topic, attributes, notes)
        fits = await self._fits(topic, attributes, [entry.hit for entry in found])
        keeps, decided = kept(fits, self._settings.threshold)
        if not self._settings.ranking:
            keeps, decided = [True] * len(fits), ""
        papers = _in_order(fits, _ranked(found, fits, keeps))
        notes += self._remarks(papers, decided)
        return Survey(
            attributes=attributes,
            queries=queries,
            papers=papers,
            library=library.fingerprint,
            notes=tuple(notes),
        )

    async def _attributes(self, topic: Topic, notes: list[str]) -> TaskAttributes:
        own = own_attributes(topic)
        if self._review is None:
            return own
        prompt = of_template("attributes", (material.described(topic),))
        try:
            reply = await self._review.ask(
                CallPurpose(SURVEY_ID, 0, "attributes"),
                TaskAttributes,
                prompt,
                {"other": Limit(most=_ATTRIBUTES)},
            )
        except UNANSWERED as error:
            notes.append(_note("the task attributes are those of the recipe", error))
            return own
        other = [line(text, _PHRASE) for text in reply.other]
        return TaskAttributes(
            inputs=line(reply.inputs, _PHRASE) or own.inputs,
            outputs=line(reply.outputs, _PHRASE) or own.outputs,
            other=tuple(dict.fromkeys(text for text in other if text))[:_OTHERS],
        )

    async def _retrieve(
        self, library: Library, topic: Topic, attributes: TaskAttributes, notes: list[str]
    ) -> tuple[tuple[str, ...], tuple[FoundPaper, ...]]:
        """Return the queries that were asked and the papers that they found together."""
        own = own_queries(topic, attributes)
        asked = await self._worded(1, topic, attributes, (), (), own, notes)
        found = await self._search(library, asked)
        if not found:
            asked = distinct([*asked, *own])
            found = await self._search(library, asked)
        for ordinal in range(2, self._settings.expansions + 2):
            best = [entry.hit for entry in found[: self._settings.expand_from]]
            if not best:
                break
            titles = [hit.title for hit in best]
            more = await self._worded(ordinal, topic, attributes, asked, best, titles, notes)
            asked = distinct([*asked, *more])
            found = await self._search(library, asked)
        return asked, found

    async def _worded(
        self,
        ordinal: int,
        topic: Topic,
        attributes: TaskAttributes,
        asked: Sequence[str],
        best: Sequence[Hit],
        substitutes: Sequence[str],
        notes: list[str],
    ) -> tuple[str, ...]:
        """Return new queries from the model, or else from the substitutes."""
        count = self._settings.queries
        if self._ideation is None:
            return distinct(substitutes, asked)[:count]
        prompt = of_template(
            "queries",
            (material.papers("papers", best), material.described(topic)),
            attributes=attributes,
            asked=asked,
            count=count,
        )
        call = CallPurpose(SURVEY_ID, 0, "queries", ordinal)
        try:
            reply = await self._ideation.ask(
                call, QueriesReply, prompt, {"queries": Limit(least=1, most=count)}
            )
        except UNANSWERED as error:
            instead = "titles of the best hits" if best else "the topic and its attributes"
            notes.append(_note(f"{instead} were searched for", error))
            return distinct(substitutes, asked)[:count]
        return distinct(reply.queries, asked)[:count]

    async def _search(self, library: Library, queries: Sequence[str]) -> tuple[FoundPaper, ...]:
        """Return the best papers over all queries."""
        # In a thread: an index on a shared file system, or a service, may be slow.
        hits = {query: await asyncio.to_thread(self._hits, library, query) for query in queries}
        return merge(hits)[: self._settings.papers]

    def _hits(self, library: Library, query: str) -> list[Hit]:
        """Return the best papers for a query whose abstracts have enough words.

        There may be fewer than wanted: papers far down the list have little to do with the query,
        and each hit costs an explanation in the index, or pages of a service.
        """
        limit, least = self._settings.papers, self._settings.abstract_words
        if not least:
            return list(library.search(query, limit))
        wanted = limit
        while True:
            hits = library.search(query, wanted)
            enough = [hit for hit in hits if _words(hit) >= least]
            if len(enough) >= limit or len(hits) < wanted or wanted >= _DEEPEST * limit:
                return enough[:limit]
            wanted *= 2

    async def _fits(
        self, topic: Topic, attributes: TaskAttributes, papers: Sequence[Hit]
    ) -> tuple[Fit, ...]:
        if not self._settings.ranking:
            return (Fit(None, None, _NOT_RANKED),) * len(papers)
        return await self._ranker.rank(topic, attributes, papers)

    def _remarks(self, papers: Sequence[RankedPaper], decided: str) -> list[str]:
        if not papers and (least := self._settings.abstract_words):
            return [
                f"no paper with {least} words of abstract was found for the topic; lower "
                f"literature.abstract_words, or {_BUILD}"
            ]
        if not papers:
            return [f"no paper of the library was found for the topic; {_BUILD}"]
        if not self._settings.ranking:
            return []
        said, count = [], sum(paper.kept for paper in papers)
        if unjudged := sum(paper.topic is None for paper in papers):
            stand = "" if decided == "retrieval" else "; they are kept, last"
            said.append(f"{unjudged} of {len(papers)} papers could not be judged{stand}")
        if decided == "retrieval":
            said.append(
                f"scores tell no papers apart: the first {count} of {len(papers)} retrieved are "
                "kept"
            )
        elif decided == "rank" and all(paper.expected_topic is None for paper in papers):
            said.append(
                f"{self._settings.threshold} on topic and attributes keeps no paper, or all of "
                f"{len(papers)}: those of the higher scores are kept"
            )
        return said


def _ranked(
    found: Sequence[FoundPaper], fits: Sequence[Fit], keeps: Sequence[bool]
) -> list[RankedPaper]:
    return [
        RankedPaper(
            paper_id=entry.hit.paper_id,
            title=entry.hit.title,
            abstract=entry.hit.abstract,
            year=entry.hit.year,
            topic=fit.topic,
            attributes=fit.attributes,
            reason=fit.reason,
            kept=keep,
            queries=entry.queries,
            expected_topic=fit.expected_topic,
            expected_attributes=fit.expected_attributes,
            quantile=quantile,
        )
        for entry, fit, keep, quantile in zip(found, fits, keeps, quantiles(fits), strict=True)
    ]


def _in_order(fits: Sequence[Fit], papers: Sequence[RankedPaper]) -> tuple[RankedPaper, ...]:
    """Return papers with the kept ones first, then by score, unscored last; ties as retrieved."""

    def order(place: int) -> tuple[bool, bool, float, float]:
        low, high = fits[place].worth or (0.0, 0.0)
        return not papers[place].kept, fits[place].worth is None, -low, -high

    return tuple(papers[place] for place in sorted(range(len(papers)), key=order))


def _empty(topic: Topic, library: str, note: str) -> Survey:
    own = own_attributes(topic)
    return Survey(attributes=own, queries=(), papers=(), library=library, notes=(note,))


def _words(hit: Hit) -> int:
    return sum(" " not in term for term in terms(hit.abstract))


def _note(instead: str, error: ModelError) -> str:
    return one_line(f"{instead}, for the model gave no usable reply: {error}")


class SurveyStage(Stage[Surveyor]):
    """The survey, once per campaign."""

    name = "survey"
    kinds = (
        Kind("attributes", "review", TaskAttributes),
        Kind("queries", "ideation", QueriesReply),
        Kind("rank", "review", RankReply),
    )
    reads_library = True

    def applies(self, settings: Settings, has_library: bool) -> bool:
        """Return whether the settings ask for a survey and there is a library."""
        return settings.literature.survey and has_library

    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return how many model calls of each kind to expect."""
        literature = expected.settings.literature
        ranked = literature.papers if literature.ranking else 0
        asked = 1 + literature.expansions
        return Calls.of("attributes", 1), Calls.of("queries", asked), Calls.of("rank", ranked)

    def open(self, means: Means) -> Surveyor:
        """Return the surveyor of the campaign's library."""
        ideation, review = means.client("ideation"), means.client("review")
        return Surveyor(ideation, review, means.library, means.settings.literature)

    async def weigh(self, opened: Surveyor, sample: Sample) -> None:
        """Survey the recipe's topic."""
        await opened.survey(sample.recipe.spec.topic)


SURVEY = SurveyStage()
