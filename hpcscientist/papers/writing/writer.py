"""Writes a manuscript from a brief: outline, related work, sections, checklists, the whole.

The procedure follows The AI Scientist (arXiv 2408.06292, section 3) and AI-Researcher (arXiv
2505.18705): an outline, related work in rounds of search, each section with its own advice, a
checklist and a refinement, then a refinement of the whole. In addition, every reply has to pass
`papers.check`. A defect goes back to the writer with its fix; if the defect remains, the sentence
is removed. No check is ever relaxed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from hpcscientist.config.settings import PapersSettings
from hpcscientist.models.prompting.fitting import (
    GONE,
    Prompt,
    entries,
    from_the_end,
    of_template,
)
from hpcscientist.models.prompting.prompts import line, render
from hpcscientist.models.reply_limits import Limit, Limits
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient
from hpcscientist.papers.writing import brief, drafts
from hpcscientist.papers.writing.advice import (
    ABSTRACT_ADVICE,
    CAMPAIGN_ADVICE,
    IDEA_ADVICE,
    SectionAdvice,
)
from hpcscientist.papers.writing.brief import PaperBrief
from hpcscientist.papers.writing.drafts import WHOLE, FigureOffer, SectionDraft
from hpcscientist.papers.writing.evidence import FoundPapers, Offered
from hpcscientist.ports import Library
from hpcscientist.records.facts import Fact, FactSheet
from hpcscientist.records.manuscript import (
    Defect,
    DefectCode,
    Line,
    Manuscript,
    Number,
    walk,
)
from hpcscientist.records.writing import (
    ChecklistReply,
    OutlineReply,
    RelatedReply,
    SectionReply,
    WholeReply,
)

Check = Callable[[Manuscript], Sequence[Defect]]
"""Returns the defects of a manuscript; the same for the same manuscript."""

Build = Callable[[Manuscript], Awaitable[Sequence[Defect]]]
"""Typesets a manuscript; returns the defects of the document."""

_TITLE_WORDS: Final = 2
_AGAIN: Final = 2  # replies that repeat a refused one without counting as a try
_POINTS, _KEPT, _REMARKS, _PARAGRAPHS = 6, 6, 8, 9  # entries of lists in replies
_SHOWN: Final = 12  # most defects shown to the writer at once
_DEFECT, _REMARK, _QUERY, _TITLE = 500, 500, 300, 160  # characters
_DRY: Final = 2  # rounds in a row without a new paper, after which the search ends
_STRIKES: Final = 12  # most rounds of removing sentences from one section
_TELLING: Final = ("limitations", "setup")  # sections for statements that a paper must make
# Added to a paper whose writer left out the required statements.
_TOLD: Final = (
    "In this campaign {campaign.ideas.proposed} ideas were proposed: {campaign.ideas.rejected} "
    "were rejected before they ran, {campaign.ideas.failed} failed and {campaign.ideas.scored} "
    "were scored. P-values are adjusted for the number of ideas, so that the false discovery rate "
    "stays within {percent(campaign.level)} percent."
)


@dataclass(frozen=True, slots=True)
class WrittenManuscript:
    """A finished manuscript and its remaining `defects`.

    `sent_back` counts the replies that were returned with defects. `struck` are the sections that
    lost sentences whose defects were not fixed.
    """

    manuscript: Manuscript
    defects: tuple[Defect, ...]
    sent_back: int
    struck: tuple[str, ...]


@dataclass(slots=True)
class Writer:
    """The writer of one paper.

    `client` is the model that writes; `judge` answers checklists and reads the whole. `figures` are
    those that exist, `check` and `build` find defects, and `tell` receives progress lines.
    """

    client: RoleClient
    judge: RoleClient
    brief: PaperBrief
    sheet: FactSheet
    library: Library | None
    sections: tuple[SectionAdvice, ...]
    figures: Sequence[FigureOffer]
    check: Check
    settings: PapersSettings = field(default_factory=PapersSettings)
    build: Build | None = None
    tell: Callable[[str], None] = lambda _: None
    evidence: FoundPapers = field(init=False)
    _title: str = field(init=False, default="")
    _points: dict[str, tuple[str, ...]] = field(init=False, default_factory=dict)
    _assigned: dict[str, tuple[str, ...]] = field(init=False, default_factory=dict)
    _drafts: dict[str, SectionDraft] = field(init=False, default_factory=dict)
    _sent_back: int = field(init=False, default=0)
    _struck: list[str] = field(init=False, default_factory=list)
    _known: dict[Manuscript, tuple[Defect, ...]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Start without evidence."""
        self.evidence = FoundPapers(self.library)

    async def write(self) -> WrittenManuscript:
        """Write the paper.

        Raises ReplyError and PlaybookExhausted if there is no outline, EndpointError, and what
        the library and the build raise.
        """
        await self._outline()
        await self._related()
        for advice in (*self.sections, ABSTRACT_ADVICE):
            await self._section(advice)
        if self.settings.refine:
            await self._whole()
        return await self._settled()

    async def _outline(self) -> None:
        ids = tuple(advice.id for advice in self.sections)
        figures = tuple(figure.id for figure in self.figures)
        limits: Limits = {
            "sections": Limit(least=len(ids), most=len(ids)),
            "sections.section": Limit(values=ids),
            "sections.points": Limit(least=1, most=_POINTS),
            "sections.figures": Limit(values=figures, most=len(figures)),
        }
        asked = prompt = of_template(
            "outline",
            (
                from_the_end("fields", self.brief.fields),
                from_the_end("facts", brief.lines_of(self._facts(ABSTRACT_ADVICE))),
            ),
            topic=self.brief.topic,
            about=self._about,
            sections=self.sections,
            figures=self.figures,
        )
        for ordinal in range(1, self.settings.repairs + 2):
            call = self._call("outline", ordinal, again=ordinal - 1)
            reply = await self.client.ask(call, OutlineReply, prompt, limits)
            self._title = line(reply.title, _TITLE)
            problems = self._title_defects()
            if not problems:
                break
            self._sent_back += 1
            said = render("defects", defects=_told(problems), same=False)
            prompt = asked.answered((reply.model_dump_json(), GONE), said)
        else:
            self._title = self.brief.title
        if len(self._title.split()) < _TITLE_WORDS:  # small models write ","
            self._title = self.brief.title
        for section in reply.sections:
            self._points.setdefault(section.section, section.points[:_POINTS])
            known = (name for name in section.figures if name in figures)
            self._assigned.setdefault(section.section, tuple(known))
        self._say(f"outline: {self._title}")

    def _title_defects(self) -> tuple[Defect, ...]:
        alone = drafts.assembled(self._title, (), {}, self.brief.scope)
        return tuple(d for d in self._checked(alone) if d.place.section == "title")

    async def _related(self) -> None:
        """Search for papers in rounds, and keep the sentences that the paper may cite."""
        library = self.library
        if library is None or not len(library) or not self.settings.related_rounds:
            return
        query, searches, dry = self.brief.query, list[str](), 0
        known = list(dict.fromkeys(self.brief.papers))
        for ordinal in range(1, self.settings.related_rounds + 1):
            hits = await asyncio.to_thread(library.search, query, self.settings.related_hits)
            ids = (*known, *(hit.paper_id for hit in hits))
            fresh = self.evidence.offer(ids, f"{query} {self.brief.query}")
            known = []
            searches.append(f"“{line(query, _QUERY)}”: {len(fresh)} not found before")
            dry = 0 if fresh else dry + 1
            last = ordinal == self.settings.related_rounds or dry == _DRY
            reply = await self._kept(ordinal, fresh, searches, last=last)
            if reply is None or reply.done or last:
                break
            query = line(reply.query, _QUERY) or self.brief.title
        kept = sum(len(names) for names in self.evidence.kept.values())
        found = len(self.evidence.papers)
        self._say(f"related work: {found} papers found, {kept} sentences kept")

    async def _kept(
        self, ordinal: int, fresh: Sequence[Offered], searches: Sequence[str], *, last: bool
    ) -> RelatedReply | None:
        ids = tuple(name for paper in fresh for name in paper.ids())
        citing = tuple(a for a in self.sections if a.cites) or self.sections
        limits: Limits = {
            "keep": Limit(most=min(_KEPT, len(ids))),
            **({"keep.evidence": Limit(values=ids)} if ids else {}),
            "keep.section": Limit(values=tuple(advice.id for advice in citing)),
        }
        prompt = of_template(
            "related",
            (
                entries("searches", tuple(searches)),
                from_the_end("kept", self.evidence.shown()),
                from_the_end("fields", self.brief.fields),
                from_the_end("papers", [(paper.name, paper.lines()) for paper in fresh]),
            ),
            topic=self.brief.topic,
            title=self._title,
            sections=citing,
            round=ordinal,
            rounds=self.settings.related_rounds,
            most=_KEPT,
            last=last,
        )
        call = self._call("related", ordinal)
        try:
            reply = await self.client.ask(call, RelatedReply, prompt, limits)
        except UNANSWERED as error:
            self._say(f"related work ends here: {error}")
            return None
        for kept in reply.keep[:_KEPT]:
            self.evidence.keep(kept.evidence, kept.section, line(kept.use, _REMARK))
        return reply

    async def _section(self, advice: SectionAdvice) -> None:
        prompt = self._prompt("section", advice, points=self._points.get(advice.id, ()))
        draft = await self._accepted(advice, "section", 0, prompt)
        self._drafts[advice.id] = draft
        if self.settings.refine:
            questions = await self._unmet(draft)
            await self._refined(advice, 0, questions)
        self._say(f"{advice.title}: {self._drafts[advice.id].words()} words")

    async def _accepted(
        self,
        advice: SectionAdvice,
        stage: str,
        before: int,
        prompt: Prompt,
        standing: SectionDraft | None = None,
    ) -> SectionDraft:
        """Ask for a section until it has no defects of its own.

        `before` offsets the ordinals of the calls. If defects remain, return the `standing` draft;
        without one, remove the sentences with defects.
        """
        asked, refused = prompt, set[str]()
        best, fewest = None, 0
        for number in range(1, self.settings.repairs + _AGAIN + 2):
            ordinal = 100 * advice.number + before + number
            call = self._call(stage, ordinal, again=number - 1)
            try:
                reply = await self.client.ask(call, SectionReply, prompt, self._limits(advice))
            except UNANSWERED as error:
                self._say(f"{advice.title}: no usable reply to {stage}/{ordinal}: {error}")
                break
            draft = drafts.read(advice, reply, self.evidence, self._offers)
            defects = self._own(draft)
            if not defects:
                return draft
            self._sent_back += 1
            if best is None or len(defects) < fewest:
                best, fewest = draft, len(defects)
            text = reply.model_dump_json()
            same = text in refused
            refused.add(text)
            if len(refused) > self.settings.repairs:
                break
            # Only the latest reply is shown, so that the prompt does not grow with each repair.
            said = render("defects", defects=_told(defects), same=same)
            prompt = asked.answered((text, GONE), said)
        if standing is not None:
            return standing
        return self._cleaned(best or SectionDraft(advice))

    async def _unmet(self, draft: SectionDraft) -> tuple[str, ...]:
        """Return the unmet questions of a section's checklist, each with the judge's remark."""
        advice = draft.advice
        questions = {question.id: question.text for question in advice.checklist}
        limits: Limits = {
            "answers": Limit(least=len(questions), most=len(questions)),
            "answers.question": Limit(values=tuple(questions)),
        }
        prompt = of_template(
            "checklist",
            (from_the_end("facts", brief.lines_of(self._named(draft))),),
            advice=advice,
            text=draft.text(),
            questions=questions,
            supports=[(s.sentence, s.quote) for s in draft.supports],
        )
        try:
            call = self._call("checklist", advice.number)
            reply = await self.judge.ask(call, ChecklistReply, prompt, limits)
        except UNANSWERED as error:
            self._say(f"{advice.title}: its checklist is left out: {error}")
            return ()
        return tuple(
            f"{questions[answer.question]} {line(answer.remark, _REMARK)}"
            for answer in reply.answers
            if not answer.met and answer.question in questions
        )

    async def _refined(self, advice: SectionAdvice, before: int, remarks: Sequence[str]) -> None:
        if remarks:
            draft = self._drafts[advice.id]
            prompt = self._prompt("refine", advice, text=self._text(draft), remarks=remarks)
            self._drafts[advice.id] = await self._accepted(
                advice, "refine", before, prompt, standing=draft
            )

    async def _whole(self) -> None:
        """Have the judge read the whole paper, and refine the sections that have remarks."""
        ids = tuple(self._drafts)
        limits: Limits = {
            "remarks": Limit(most=_REMARKS),
            "remarks.section": Limit(values=ids),
        }
        prompt = of_template(
            "whole",
            (entries("texts", [(d.advice.id, d.advice.title, d.text()) for d in self._order()]),),
            title=self._title,
            topic=self.brief.topic,
            about=self._about,
        )
        try:
            reply = await self.judge.ask(self._call("whole", 1), WholeReply, prompt, limits)
        except UNANSWERED as error:
            self._say(f"it is not read as a whole: {error}")
            return
        remarks: dict[str, list[str]] = {}
        for remark in reply.remarks[:_REMARKS]:
            remarks.setdefault(remark.section, []).append(line(remark.remark, _REMARK))
        for draft in self._order():
            await self._refined(draft.advice, 50, remarks.get(draft.advice.id, ()))

    async def _settled(self) -> WrittenManuscript:
        """Have the defects of the whole paper and of its document fixed or removed."""
        found: Sequence[Defect] = ()
        for number in range(self.settings.fixes + 1):
            found = self._checked(self._manuscript())
            if not found and self.build is not None:
                found = await self.build(self._manuscript())
            if not found or number == self.settings.fixes:
                break
            if not await self._fixed(found, number):
                break
        if found := self._checked(self._manuscript()):
            for draft in self._order():
                self._drafts[draft.advice.id] = self._cleaned(draft, found)
            if any(defect.place.section == "title" for defect in found):
                self._title = self.brief.title
            found = self._with_what_must_be_told(self._checked(self._manuscript()))
        manuscript = self._manuscript()
        struck = tuple(dict.fromkeys(self._struck))
        return WrittenManuscript(manuscript, tuple(found), self._sent_back, struck)

    def _with_what_must_be_told(self, found: Sequence[Defect]) -> Sequence[Defect]:
        """Add the required statements if that reduces the defects; return the remaining defects."""
        untold = [defect for defect in found if defect.code is DefectCode.NOT_TOLD]
        if not untold:
            return found
        home = self._home(untold[0])
        before = self._drafts[home]
        self._drafts[home] = drafts.added(before, _TOLD)
        left = self._checked(self._manuscript())
        if len(left) >= len(found):
            self._drafts[home], left = before, found
        return left

    async def _fixed(self, defects: Sequence[Defect], number: int) -> bool:
        """Have the sections with defects rewritten; return whether the manuscript changed."""
        before = self._manuscript()
        for draft in self._order():
            advice = draft.advice
            here = [defect for defect in defects if self._home(defect) == advice.id]
            if not here:
                continue
            self._sent_back += 1
            prompt = self._prompt("mend", advice, text=self._text(draft), defects=_told(here))
            self._drafts[advice.id] = await self._accepted(
                advice, "mend", 10 * number, prompt, standing=draft
            )
        if any(defect.place.section == "title" for defect in defects):
            self._title = self.brief.title
        return self._manuscript() != before

    def _home(self, defect: Defect) -> str:
        """Return the id of the section in which to fix a defect; "" if no section can."""
        place = defect.place.section
        if defect.code in WHOLE:  # the statement is missing from all sections
            return next(filter(self._drafts.__contains__, _TELLING), next(iter(self._drafts)))
        if place in self._drafts:
            return place
        if place.startswith("figure:"):
            name = f"[#{place.removeprefix('figure:')}]"
            return next((d.advice.id for d in self._order() if name in d.text()), "")
        if defect.code is DefectCode.PAGE_COUNT:
            longest = max(self._order(), key=lambda d: d.words() / d.advice.words)
            return longest.advice.id
        return ""

    def _cleaned(self, draft: SectionDraft, others: Sequence[Defect] = ()) -> SectionDraft:
        """Return a section without its defects; if nothing is left, it lists its facts.

        `others` are the defects of the whole manuscript.
        """
        there = (defect for defect in others if defect.code not in WHOLE)
        defects = (*self._own(draft), *drafts.own(there, draft))
        if not defects and draft.blocks:
            return draft
        self._struck.append(draft.advice.id)
        for _ in range(_STRIKES):
            if not defects or not draft.blocks:
                break
            long = all(defect.code is DefectCode.TOO_LONG for defect in defects)
            draft = drafts.shortened(draft) if long else drafts.struck(draft, defects)
            defects = self._own(draft)
        if draft.blocks and not defects:
            return draft
        only = drafts.listed(draft.advice, self._facts(draft.advice))
        return drafts.struck(only, self._own(only))

    def _own(self, draft: SectionDraft) -> tuple[Defect, ...]:
        """Return the defects that a section has on its own, without the other sections."""
        alone = drafts.assembled(self._title, (draft,), self._offers, self.brief.scope)
        found = (d for d in drafts.own(self._checked(alone), draft) if d.code not in WHOLE)
        return (*draft.refused, *found, *drafts.too_long(draft))

    def _prompt(self, stage: str, advice: SectionAdvice, **more: object) -> Prompt:
        """Return the prompt for a section.

        If it is too long for the context, it drops other sections' texts from the first on, then
        the brief's fields, the evidence and the facts, each from the last on.
        """
        figures = [f for f in self.figures if f.id in self._assigned.get(advice.id, ())]
        others = [d for d in self._order() if d.advice.id != advice.id]
        return of_template(
            stage,
            (
                entries("others", [(d.advice.title, self._text(d)) for d in others]),
                from_the_end("fields", self.brief.fields),
                from_the_end("evidence", self.evidence.shown(advice.id) if advice.cites else ()),
                from_the_end("facts", brief.lines_of(self._facts(advice))),
            ),
            title=self._title,
            topic=self.brief.topic,
            about=self._about,
            advice=advice,
            figures=figures,
            names=self.sheet.names,
            **more,
        )

    def _limits(self, advice: SectionAdvice) -> Limits:
        figures = self._assigned.get(advice.id, ())
        return {
            "paragraphs": Limit(least=1, most=_PARAGRAPHS),
            "captions": Limit(most=len(figures)),
            **({"captions.figure": Limit(values=figures)} if figures else {}),
        }

    def _facts(self, advice: SectionAdvice) -> tuple[Fact, ...]:
        return brief.facts_for(advice, self.sheet, self.brief.scope.ideas)

    def _named(self, draft: SectionDraft) -> tuple[Fact, ...]:
        """Return the facts that a section uses."""
        ids = {name for line in draft.lines() for name in _ids(line)}
        return tuple(fact for fact in self.sheet.facts if fact.id in ids)

    def _checked(self, manuscript: Manuscript) -> Sequence[Defect]:
        """Check a manuscript; the result is cached, as a check takes seconds."""
        if manuscript not in self._known:
            self._known[manuscript] = tuple(self.check(manuscript))
        return self._known[manuscript]

    def _order(self) -> tuple[SectionDraft, ...]:
        return tuple(self._drafts.values())

    def _manuscript(self) -> Manuscript:
        return drafts.assembled(self._title, self._order(), self._offers, self.brief.scope)

    def _text(self, draft: SectionDraft) -> str:
        """Return a section's text as the writer is shown it."""
        return self.evidence.as_cited(draft.text(), draft.supports)

    def _call(self, stage: str, ordinal: int, again: int = 0) -> CallPurpose:
        return CallPurpose(self.brief.subject, self.brief.number, stage, ordinal, again=again)

    def _say(self, text: str) -> None:
        self.tell(f"{self.brief.subject}: {text}")

    @property
    def _offers(self) -> dict[str, FigureOffer]:
        return {figure.id: figure for figure in self.figures}

    @property
    def _about(self) -> str:
        return CAMPAIGN_ADVICE if self.brief.is_campaign else IDEA_ADVICE


def _told(defects: Sequence[Defect]) -> tuple[str, ...]:
    """Return defects as the writer is shown them, no more than it can fix at once."""
    return tuple(line(str(defect), _DEFECT) for defect in defects[:_SHOWN])


def _ids(parts: Line) -> Iterator[str]:
    for part in walk(parts):
        if isinstance(part, Number):
            yield from part.ref.ids
