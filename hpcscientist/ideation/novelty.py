"""Novelty: a model searches the library in rounds, then says whether an idea is new.

As in The AI Scientist (arXiv 2408.06292, section 3) and Dolphin (arXiv 2501.03916, 3.2), there are
up to ten rounds of ten hits. Those systems treat an idea as not novel if no round decides, which a
missing network causes for every idea. Here such an idea is undecided, and a decision needs papers
as evidence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from hpcscientist.config.settings import Settings
from hpcscientist.ideation.material import (
    CORE,
    DETAILS,
    abstracts_part,
    fields_part,
    titles_of,
)
from hpcscientist.models.prompting.fitting import Prompt, entries, from_the_end, of_template
from hpcscientist.models.prompting.naming import found_ids
from hpcscientist.models.prompting.prompts import line
from hpcscientist.models.reply_limits import Limit, Limits
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient
from hpcscientist.models.stage import TRIES, Calls, Expected, Kind, Means, Sample, VettingStage
from hpcscientist.ports import Library
from hpcscientist.records.idea import Idea
from hpcscientist.records.proposing import (
    Citation,
    Decision,
    NoveltyReply,
    NoveltyVerdict,
    Reference,
)

_REASON = 1000  # characters of what a model says
_QUERY = 400
_MOST_CITED = 5
_DRY = 2  # searches in a row without a new paper, after which further ones are pointless
_TRIES = 2  # decisions without evidence, after which the verdict is undecided


class NoveltyJudge:
    """Judges ideas against a library; round R is stage `novelty`, ordinal R."""

    def __init__(
        self, client: RoleClient, library: Library | None, rounds: int = 10, hits: int = 10
    ) -> None:
        self._client, self._library = client, library
        self._rounds, self._hits = rounds, hits

    async def judge(self, idea: Idea) -> NoveltyVerdict:
        """Return whether an idea is new, as far as the library shows.

        A decision, either way, must cite at least one paper that was found and shown; without one,
        it is asked for once more. The verdict is undecided, with the reason, if there is no
        library, nothing is found, a reply is unusable, or the rounds are used up. A paper counts as
        shown if it was among the hits before the reply, even if the prompt had no room for it: room
        differs between runs, and a verdict must not. A library that cannot be searched gives no
        verdict, because the answer would change once it is fixed. Raises EndpointError,
        LibraryError.
        """
        if self._library is None:
            return NoveltyVerdict(decision="undecided", reason="there is no library to search")
        inquiry = _Inquiry(self._library, self._hits)
        try:
            return await self._judge(idea, inquiry)
        except UNANSWERED as error:
            return inquiry.undecided(f"it could not be judged: {error}")

    async def _judge(self, idea: Idea, inquiry: _Inquiry) -> NoveltyVerdict:
        proposal = idea.proposal
        await inquiry.search(f"{proposal.title}. {proposal.summary}")
        if not inquiry.seen and len(inquiry.library) == 0:
            return inquiry.undecided("the library is empty")
        problem, uncited = "", 0
        for ordinal in range(1, self._rounds + 1):
            last = ordinal == self._rounds or inquiry.is_exhausted
            prompt = self._prompt(idea, inquiry, ordinal, problem, last=last)
            inquiry.rounds = ordinal
            call = CallPurpose(idea.idea_id, idea.number, "novelty", ordinal)
            limits = self._limits(inquiry.seen, last=last)
            reply = await self._client.ask(call, NoveltyReply, prompt, limits)
            evidence = inquiry.shown(reply.evidence)
            if reply.decision == "undecided":
                return inquiry.verdict("undecided", reply.reason, evidence)
            if reply.decision == "search" and last:
                break
            if reply.decision == "search":
                problem = await inquiry.search(reply.query, reply.reason)
            elif evidence:
                return inquiry.verdict(reply.decision, reply.reason, evidence)
            else:
                uncited += 1
                problem = inquiry.lacking(reply.decision)
                if uncited == _TRIES:
                    return inquiry.undecided(f"{problem}; it said: {reply.reason}")
        return inquiry.undecided(inquiry.unfinished())

    @staticmethod
    def _limits(seen: Collection[str], *, last: bool) -> Limits:
        """Return limits that allow only papers that were shown, and no search in the last round."""
        decisions = ("novel", "not_novel", "undecided", *(() if last else ("search",)))
        cited = {"evidence.paper_id": Limit(values=tuple(seen))} if seen else {}
        return {
            "decision": Limit(values=decisions),
            "evidence": Limit(most=min(len(seen), _MOST_CITED)),
            **cited,
        }

    def _prompt(
        self, idea: Idea, inquiry: _Inquiry, ordinal: int, problem: str, *, last: bool
    ) -> Prompt:
        """Return the prompt for a decision on what was found so far.

        If too long, it loses abstracts, the lowest ranked first; then the titles found earlier and
        the list of searches, the oldest first; then hits, the lowest ranked first; then the details
        of the idea.
        """
        newest = inquiry.newest
        fresh = {paper.paper_id for paper in newest}
        earlier = [paper for key, paper in inquiry.seen.items() if key not in fresh]
        return of_template(
            "novelty",
            (
                abstracts_part(newest),
                entries("earlier", titles_of(earlier)),
                entries("searches", inquiry.told),
                from_the_end("newest", titles_of(newest)),
                fields_part("idea_fields", idea.proposal, CORE, DETAILS),
            ),
            round=ordinal,
            rounds=self._rounds,
            last=last,
            problem=problem,
        )


@dataclass(slots=True)
class _Inquiry:
    """The searches and results for one idea; `newest` are the new papers of the latest search."""

    library: Library
    hits: int
    rounds: int = 0
    queries: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    seen: dict[str, Reference] = field(default_factory=dict)
    newest: tuple[Reference, ...] = ()
    dry: int = 0

    @property
    def is_exhausted(self) -> bool:
        """Return whether a further search is unlikely to find a new paper."""
        return self.dry >= _DRY or len(self.seen) >= len(self.library)

    async def search(self, query: str, remark: str = "") -> str:
        """Search, unless that was done already; return what is wrong with the query, or ""."""
        wanted = line(query, _QUERY)
        if not wanted:
            return "it asks for a search without a query"
        if wanted.casefold() in (done.casefold() for done in self.queries):
            self.dry += 1
            return f"{_quoted(wanted)} was searched for already"
        hits = await asyncio.to_thread(self.library.search, wanted, self.hits)
        found = {
            hit.paper_id: Reference(
                paper_id=hit.paper_id, title=hit.title, abstract=hit.abstract, year=hit.year
            )
            for hit in hits[: self.hits]
        }
        new = tuple(paper for key, paper in found.items() if key not in self.seen)
        self.queries.append(wanted)
        why = f" ({line(remark, 300)})" if remark.strip() else ""
        papers = "1 paper" if len(found) == 1 else f"{len(found)} papers"
        self.told.append(f"{_quoted(wanted)}{why}: {papers}, {len(new)} not found before")
        self.seen |= {paper.paper_id: paper for paper in new}
        self.newest = new
        self.dry = 0 if new else self.dry + 1
        return ""

    def shown(self, evidence: Iterable[Citation]) -> tuple[Citation, ...]:
        """Return the citations of papers that were found, each paper once, under its own id."""
        cited: dict[str, Citation] = {}
        for citation in evidence:
            for paper_id in found_ids([citation.paper_id], self.seen):
                why = line(citation.why, _REASON)
                cited.setdefault(paper_id, Citation(paper_id=paper_id, why=why or "(no reason)"))
        return tuple(cited.values())

    def lacking(self, decision: str) -> str:
        """Return what a decision without evidence lacks."""
        if not self.seen:
            return "no search has found a paper so far, and that is no evidence"
        return f"the decision {decision} cites no paper that was shown"

    def unfinished(self) -> str:
        """Return why there is no decision after the last round."""
        count = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
        if not self.seen:
            return f"no search found a paper in {count}, and that is no evidence"
        return f"there was no decision after {count} and {len(self.seen)} papers"

    def undecided(self, reason: str) -> NoveltyVerdict:
        """Return the undecided verdict, with a reason."""
        return self.verdict("undecided", reason, ())

    def verdict(
        self, decision: Decision, reason: str, evidence: tuple[Citation, ...]
    ) -> NoveltyVerdict:
        """Return a verdict with the evidence and searches behind it."""
        return NoveltyVerdict(
            decision=decision,
            reason=line(reason, _REASON) or "no reason was given",
            evidence=evidence,
            queries=tuple(self.queries),
            rounds=self.rounds,
            library=self.library.fingerprint,
        )


def _quoted(query: str) -> str:
    return f"“{query}”"


_LIKELY = 2  # guess: rounds until a decision


class NoveltyStage(VettingStage[NoveltyJudge]):
    """Judges whether an idea is new, once an idea."""

    name = "novelty"
    kinds = (Kind("novelty", "review", NoveltyReply),)
    reads_library = True
    verdict = NoveltyVerdict

    def applies(self, settings: Settings, has_library: bool) -> bool:
        """Return whether settings enable it and there is a library to search."""
        return settings.proposing.novelty_rounds > 0 and has_library

    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return the calls: one a round, and one more for a decision without evidence."""
        ideas, rounds = expected.settings.ideas, expected.settings.proposing.novelty_rounds
        return (Calls("novelty", ideas * min(_LIKELY, rounds), ideas * (rounds + 1) * TRIES),)

    def open(self, means: Means) -> NoveltyJudge:
        """Return the judge, with the campaign's library."""
        own = means.settings.proposing
        client = means.client("review")
        return NoveltyJudge(client, means.library, own.novelty_rounds, own.novelty_hits)

    async def weigh(self, opened: NoveltyJudge, sample: Sample) -> None:
        """Judge an idea."""
        await opened.judge(sample.idea)


NOVELTY = NoveltyStage()
