"""`hpcsci paper --check`: checks a manuscript against the facts, the claims and the library."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from hpcscientist.files.rundir import RunPaths
from hpcscientist.papers.facts.collect import collect
from hpcscientist.papers.formulas import BadFormula, resolve
from hpcscientist.papers.walls.citations import CitationWall, PaperLookup
from hpcscientist.papers.walls.claims import ClaimWall
from hpcscientist.papers.walls.counts import CountWall
from hpcscientist.papers.walls.finding import NamedInSentence, SentenceDefect, nearest, words, write
from hpcscientist.papers.walls.mentions import Vocabulary
from hpcscientist.papers.walls.numerals import foreign_letters, mask, typed_numbers
from hpcscientist.papers.walls.outcomes import OutcomeWall
from hpcscientist.papers.walls.scopes.wall import ScopeWall
from hpcscientist.papers.walls.sentences import Flat, Sentence, flatten, sentences
from hpcscientist.records.facts import Fact, FactSheet, Statistic, TrialRow
from hpcscientist.records.findings import Verdict
from hpcscientist.records.manuscript import (
    Citation,
    Defect,
    DefectCode,
    FigureRef,
    Line,
    Manuscript,
    NotRestrictedText,
    Number,
    Place,
    lines,
    parse_line,
    walk,
    written,
)

_DIGITS = re.compile(r"\b(?=\w*[^\W_])[\w]+(?:[-.]\w+)*\b")
_CORRECTED = frozenset(
    words(
        """
        adjusted adjustment corrected correction corrects benjamini-hochberg multiplicity
        benjamini hochberg bonferroni discovery multiple-testing
        """
    )
)
_ABSTRACT = Place(section="abstract")


@dataclass(frozen=True, slots=True)
class Coverage:
    """The counts of a manuscript's numbers that are traced to facts, and that are not."""

    traced: int
    untraced: int

    @property
    def share(self) -> float:
        """The traced share; 1 if there are no numbers."""
        total = self.traced + self.untraced
        return self.traced / total if total else 1.0


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check."""

    defects: tuple[Defect, ...]
    coverage: Coverage

    @property
    def holds(self) -> bool:
        """Return whether there are no defects and every number is traced."""
        return not self.defects and self.coverage.share == 1.0


def check(manuscript: Manuscript, sheet: FactSheet, papers: PaperLookup) -> list[Defect]:
    """Return the defects of a manuscript, in the order of its text."""
    return list(Checker(manuscript, sheet, papers).all())


def check_all(
    manuscript: Manuscript, sheet: FactSheet, papers: PaperLookup, paths: RunPaths | None
) -> Checked:
    """Check a manuscript and, given a run directory, that its facts have not changed.

    Raises RunDirectoryError.
    """
    checker = Checker(manuscript, sheet, papers)
    defects = [*checker.all()]
    if paths is not None:
        defects += changed(sheet, paths, used(manuscript))
    return Checked(tuple(defects), coverage(manuscript, sheet, defects))


def used(manuscript: Manuscript) -> dict[str, Place]:
    """Return the ids of the facts that a manuscript uses, each with the place of its first use."""
    found: dict[str, Place] = {}
    for place, line in lines(manuscript):
        for part in walk(line):
            if isinstance(part, Number):
                for fact_id in part.ref.ids:
                    found.setdefault(fact_id, place)
    return found


def coverage(manuscript: Manuscript, sheet: FactSheet, defects: Iterable[Defect]) -> Coverage:
    """Count the numbers that resolve to facts, and those that are typed or do not resolve."""
    traced = untraced = 0
    for _, line in lines(manuscript):
        for part in walk(line):
            if isinstance(part, Number):
                try:
                    resolve(part.ref, sheet)
                except BadFormula:
                    untraced += 1
                else:
                    traced += 1
    typed = sum(defect.code is DefectCode.TYPED_NUMBER for defect in defects)
    return Coverage(traced, untraced + typed)


def changed(sheet: FactSheet, paths: RunPaths, needed: dict[str, Place]) -> Iterator[Defect]:
    """Recompute the facts and return a defect for each one that changed, naming the trial.

    Only the facts in `needed` are compared. Disagreements between the campaign's records are
    reported for all facts. Raises RunDirectoryError.
    """
    again = collect(paths)
    for fact_id, place in needed.items():
        was, now = sheet.by_id.get(fact_id), again.sheet.by_id.get(fact_id)
        if was is None:
            continue  # unknown fact: another check reports it
        if now is None:
            gone = ", ".join(dict.fromkeys(row.trial for row in was.source.trials))
            yield _changed(
                place, was, f"it cannot be computed any more: {gone or 'its source is gone'}"
            )
            continue
        why = _difference(was, now)
        if why:
            yield _changed(place, was, why)
    for problem in again.problems:
        yield Defect(
            code=DefectCode.CHANGED_EVIDENCE,
            place=Place(section="evidence"),
            found=problem[:300],
            fix="restore the file from a backup, or run the campaign again",
        )


def _changed(place: Place, fact: Fact, why: str) -> Defect:
    return Defect(
        code=DefectCode.CHANGED_EVIDENCE,
        place=place,
        found=f"{fact.id} = {fact.text}",
        fix=f"{why}; restore it, or collect the facts anew",
    )


def _difference(was: Fact, now: Fact) -> str:
    """Return how a fact changed, by trial if it has any; "" if it did not change."""
    rows = {(row.trial, row.run, row.position): row for row in now.source.trials}
    for row in was.source.trials:
        if why := _row_difference(row, rows.get((row.trial, row.run, row.position))):
            return why
    if len(was.source.trials) != len(rows):
        return "other trials count towards it now"
    if (was.value, was.upper, was.text) != (now.value, now.upper, now.text):
        where = ", ".join(file.file for file in was.source.files) or was.source.method
        return f"it is {now.text} now ({where})"
    ours = {file.file: file.sha256 for file in now.source.files}
    # Result files may be compacted and the journal may grow, so only code and recipe files are
    # compared by hash.
    for file in was.source.files:
        is_code = file.file.endswith(".py") or file.file.startswith("recipe/")
        if is_code and ours.get(file.file) != file.sha256:
            return f"{file.file} is another file now"
    return ""


def _row_difference(was: TrialRow, now: TrialRow | None) -> str:
    if now is None:
        return f"{was.trial} has no result any more"
    if now.value != was.value:
        return f"{was.trial} ({was.file}) had {was.value!r} and has {now.value!r} now"
    if now.row_hash != was.row_hash:
        return f"{was.trial}: its row in {now.file} is another now"
    return ""


@dataclass
class Checker:
    """The checks of one manuscript."""

    manuscript: Manuscript
    sheet: FactSheet
    papers: PaperLookup
    _vocabulary: Vocabulary = field(init=False)

    def __post_init__(self) -> None:
        own = self.manuscript.scope.ideas
        self._vocabulary = Vocabulary(self.sheet, own[0] if len(own) == 1 else None)
        self._citations = CitationWall(self.papers, self.manuscript.supports)
        self._walls = (
            ScopeWall(self.sheet, self._vocabulary),
            CountWall(self.sheet),
            ClaimWall(self.sheet, self._vocabulary),
            OutcomeWall(self.sheet, self._vocabulary),
            self._citations,
        )

    def all(self) -> Iterator[Defect]:
        """Yield all defects."""
        titles = {section.id: section.title for section in self.manuscript.sections}
        for place, line in lines(self.manuscript):
            for found in self.line(line, titles.get(place.section, "")):
                yield Defect(code=found.code, place=place, found=found.found, fix=found.fix)
        yield from self._figures()
        yield from self._papers()
        yield from self._told()

    def line(self, line: Line, context: str = "") -> Iterator[SentenceDefect]:
        """Yield the defects of one paragraph; `context` is the title of its section."""
        try:
            read = parse_line(written(line))
        except NotRestrictedText as error:
            yield SentenceDefect(error.code, error.found, str(error))
            return
        flat = flatten(line, self.sheet)
        if flat.text != flatten(read, self.sheet).text:  # words that would parse as a reference
            yield SentenceDefect(
                DefectCode.SYNTAX, flat.text[:80], "write words, and references as such"
            )
            return
        for word in foreign_letters(mask(flat.text, self._names)):
            yield SentenceDefect(DefectCode.HIDDEN_CHARACTER, word, "write it in Latin letters")
        for sentence in sentences(flat, context):
            yield from self._typed(flat, sentence)
            for wall in self._walls:
                yield from wall.check(sentence)

    def _typed(self, flat: Flat, sentence: Sentence) -> Iterator[SentenceDefect]:
        first, last = sentence.tokens[0].start, sentence.tokens[-1].end
        text = flat.text[first:last]
        for typed in typed_numbers(text, self._names, self._citations.years(sentence)):
            said = self._wanted(sentence)
            fact = nearest(self.sheet, said, typed.found.lstrip("+"), typed.value)
            yield SentenceDefect(
                DefectCode.TYPED_NUMBER, typed.found, write(fact, "write {fact-id}")
            )

    def _wanted(self, sentence: Sentence) -> NamedInSentence:
        splits = self._vocabulary.splits(sentence)
        metrics = self._vocabulary.metrics(sentence)
        return NamedInSentence(
            ideas=frozenset(m.value for m in self._vocabulary.ideas(sentence)),
            split=splits[0].value if splits else None,
            metric=metrics[0].value if metrics else None,
        )

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The names that may be typed although they contain a number."""
        own = [idea.idea_id for idea in self.sheet.ideas]
        own += [idea.title for idea in self.sheet.ideas]
        own += [title for idea in self.sheet.ideas for title in idea.parts.values()]
        for paper_id in self._cited:
            paper = self.papers.paper(paper_id)
            if paper is not None:
                own.append(paper.title)
                own += [w for w in _DIGITS.findall(paper.title) if _is_mixed(w)]
        return (*self.sheet.names, *own)

    @cached_property
    def _cited(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for _, line in lines(self.manuscript):
            for part in walk(line):
                if isinstance(part, Citation):
                    found.update(part.papers)
        return found

    def _figures(self) -> Iterator[Defect]:
        known = {figure.id for figure in self.manuscript.figures}
        shown: set[str] = set()
        for place, line in lines(self.manuscript):
            for part in walk(line):
                if not isinstance(part, FigureRef):
                    continue
                shown.add(part.id)
                if part.id not in known:
                    yield Defect(
                        code=DefectCode.UNKNOWN_FIGURE,
                        place=place,
                        found=str(part),
                        fix=f"there are {', '.join(sorted(known)) or 'no figures'}",
                    )
        for figure in self.manuscript.figures:
            if figure.id not in shown:
                yield Defect(
                    code=DefectCode.UNUSED_FIGURE,
                    place=Place(section=f"figure:{figure.id}"),
                    found=figure.id,
                    fix=f"refer to it as [#{figure.id}], or leave it out",
                )

    def _papers(self) -> Iterator[Defect]:
        for paper_id in sorted({s.paper_id for s in self.manuscript.supports} - set(self._cited)):
            yield Defect(
                code=DefectCode.UNCITED_PAPER,
                place=Place(section="references"),
                found=paper_id,
                fix="cite it, or leave it out",
            )

    def _told(self) -> Iterator[Defect]:
        """Yield a defect for each required statement that is missing.

        A manuscript must state how many ideas were tried, how many failed, and the correction.
        """
        names = used(self.manuscript)
        tried = self.sheet.by_id.get("campaign.ideas.proposed")
        if tried is not None and tried.id not in names:
            yield self._lacking("the number of ideas that were tried", tried)
        failed = self.sheet.by_id.get("campaign.ideas.failed")
        told = any(
            name.startswith(("campaign.ideas.failed", "campaign.trials.failed")) for name in names
        )
        if failed is not None and failed.value and not told:
            yield self._lacking("how many ideas failed", failed)
        found = any(idea.verdict is Verdict.IMPROVEMENT for idea in self.sheet.ideas)
        if found and not self._says(_CORRECTED) and not self._uses_adjusted(names):
            yield Defect(
                code=DefectCode.NOT_TOLD,
                place=_ABSTRACT,
                found="the correction for the number of ideas",
                fix="say that p-values are adjusted for the number of ideas: {campaign.level}",
            )

    def _lacking(self, what: str, fact: Fact) -> Defect:
        return Defect(code=DefectCode.NOT_TOLD, place=_ABSTRACT, found=what, fix=write(fact, ""))

    def _says(self, wanted: frozenset[str] | tuple[str, ...]) -> bool:
        said = (str(part).lower() for _, line in lines(self.manuscript) for part in walk(line))
        return any(word in text for text in said for word in wanted)

    def _uses_adjusted(self, names: Iterable[str]) -> bool:
        facts = filter(None, map(self.sheet.by_id.get, names))
        return any(fact.scope.statistic is Statistic.P_ADJUSTED for fact in facts)


def _is_mixed(word: str) -> bool:
    """Return whether a word has both letters and digits, as a name has and a number has not."""
    return any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
