"""Shows the role of the literature: which ideas each paper inspired, and which it ruled out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Final

from hpcscientist.files.handed import read_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import printable, visible
from hpcscientist.history import frozen
from hpcscientist.records.facts import Fact, FactSheet
from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.records.manuscript import Manuscript, Number, lines, walk
from hpcscientist.records.trial import Stage
from hpcscientist.views.campaign import CampaignView
from hpcscientist.views.cards import read_idea, read_novelty, read_survey
from hpcscientist.views.ideas import IdeaView

# Lists the numbers of a campaign's papers, each with its facts, trials and files.
#
# A manuscript contains no numbers: it names facts, which are stored beside it with their
# sources.


# Lists the trials behind the numbers of each finding, according to the journal.


@dataclass(frozen=True, slots=True)
class NumberSource:
    """A finding's numbers on one split, with the trials they are computed from and the code."""

    idea_id: str
    split: str
    mean: float | None
    delta: float | None
    trials: tuple[str, ...]
    code_hash: str


def number_sources(view: CampaignView, most: int = 100) -> tuple[NumberSource, ...]:
    """Return the sources of the findings on both splits, of the `most` best ideas.

    Confirmed ideas come first, then improvements by gain. The card of an idea has its own sources.
    """
    trials: dict[tuple[str, int, Stage], dict[str, float]] = {}
    for span in view.trials:
        if span.value is not None:
            key = span.idea_id, span.attempt, span.stage
            trials.setdefault(key, {})[span.trial_id] = span.value
    found = []
    for row in sorted(view.rows, key=_rank)[:most]:
        idea = view.state.ideas.get(row.idea_id)
        if idea is None or idea.ended is None or idea.ended.attempt is None or row.finding is None:
            continue
        attempt = idea.ended.attempt
        code = idea.code_hashes.get(attempt, "")
        search = tuple(sorted(trials.get((row.idea_id, attempt, Stage.SEEDS), ())))
        found.append(NumberSource(row.idea_id, "validation", row.mean, row.delta, search, code))
        test = trials.get((row.idea_id, attempt, Stage.CONFIRM), {})
        if row.test_delta is not None:
            mean = fmean(test.values()) if test else None
            names = tuple(sorted(test))
            found.append(NumberSource(row.idea_id, "test", mean, row.test_delta, names, code))
    return tuple(found)


def _rank(row: ResultRow) -> tuple[bool, bool, float]:
    improved = row.finding is Verdict.IMPROVEMENT
    return not row.confirmed, not improved, -abs(row.delta or 0.0) * improved


_FILE: Final = 16 * 2**20  # bytes
MANUSCRIPT, FACTS = "manuscript.json", "facts.json"


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A number of a paper.

    `formula` is as written in the paper. `text` is the printed text of a single fact, or "" for a
    formula over several. `trials` and `files` are those of all its facts.
    """

    section: str
    formula: str
    text: str
    label: str
    trials: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ManuscriptView:
    """A paper and its numbers, in the order of its text."""

    name: str
    title: str
    numbers: tuple[PrintedNumber, ...]


def manuscripts(paths: RunPaths) -> tuple[ManuscriptView, ...]:
    """Return the papers written on a campaign, without those that cannot be read."""
    try:
        folders = sorted(path for path in paths.papers.root.iterdir() if path.is_dir())
    except OSError:
        return ()
    return tuple(paper for folder in folders if (paper := _read(folder)) is not None)


def _read(folder: Path) -> ManuscriptView | None:
    try:
        written, known = (
            read_regular(folder / name, _FILE, follow=False) for name in (MANUSCRIPT, FACTS)
        )
        manuscript = Manuscript.model_validate_json(written)
        sheet = FactSheet.model_validate_json(known)
    except (OSError, ValueError):
        return None
    numbers = tuple(_numbers(manuscript, sheet))
    return ManuscriptView(printable(folder.name), visible(manuscript.title), numbers)


def _numbers(manuscript: Manuscript, sheet: FactSheet) -> Iterator[PrintedNumber]:
    for place, line in lines(manuscript):
        for part in walk(line):
            if not isinstance(part, Number):
                continue
            facts = [sheet.by_id[i] for i in part.ref.ids if i in sheet.by_id]
            single = facts[0] if part.ref.kind == "fact" and facts else None
            yield PrintedNumber(
                section=place.section,
                formula=str(part.ref),
                text=single.text if single else "",
                label=printable("; ".join(fact.label for fact in facts)),
                trials=tuple(dict.fromkeys(row.trial for f in facts for row in f.source.trials)),
                files=tuple(dict.fromkeys(name for fact in facts for name in _files(fact))),
            )


def _files(fact: Fact) -> Iterator[str]:
    for file in fact.source.files:
        place = f":{fact.source.lines[0]}" if fact.source.lines else ""
        yield f"{printable(file.file)}{place} {file.sha256[:12]}"


@dataclass(frozen=True, slots=True)
class PaperUse:
    """A paper of the survey, or a cited one. Scores are from 1 to 10, or None if not judged.

    `shown` are the ideas whose proposer saw the paper, `built_on` the ideas that say they build on
    it, `against` the ideas whose novelty verdict cites it, and `ruled_out` those of them that were
    judged not novel.
    """

    paper_id: str
    title: str
    year: int | None
    kept: bool | None
    topic: int | None
    attributes: int | None
    shown: tuple[str, ...]
    built_on: tuple[str, ...]
    against: tuple[str, ...]
    ruled_out: tuple[str, ...]


@dataclass(slots=True)
class _Uses:
    shown: list[str] = field(default_factory=list)
    built_on: list[str] = field(default_factory=list)
    against: list[str] = field(default_factory=list)
    ruled_out: list[str] = field(default_factory=list)


def papers(ideas: Sequence[IdeaView], paths: RunPaths) -> tuple[PaperUse, ...]:
    """Return the papers of a campaign, those with most ideas built on them first.

    Reads the ideas' files.
    """
    read = frozen.reader(paths)
    survey = read_survey(paths, read)
    known = {paper.paper_id: paper for paper in survey.papers} if survey else {}
    uses = {paper_id: _Uses() for paper_id in known}
    for view in ideas:
        place = paths.idea(view.idea_id)
        idea = read_idea(place, "", read)
        for paper_id in idea.papers if idea else ():
            uses.setdefault(paper_id, _Uses()).shown.append(view.idea_id)
        for paper_id in idea.proposal.papers if idea else ():
            uses.setdefault(paper_id, _Uses()).built_on.append(view.idea_id)
        novelty = read_novelty(place, read)
        for citation in novelty.evidence if novelty else ():
            use = uses.setdefault(citation.paper_id, _Uses())
            use.against.append(view.idea_id)
            if novelty is not None and novelty.decision == "not_novel":
                use.ruled_out.append(view.idea_id)
    found = []
    for paper_id, use in uses.items():
        paper = known.get(paper_id)
        found.append(
            PaperUse(
                paper_id=printable(paper_id),
                title=visible(paper.title) if paper else "",
                year=paper.year if paper else None,
                kept=paper.kept if paper else None,
                topic=paper.topic if paper else None,
                attributes=paper.attributes if paper else None,
                shown=tuple(use.shown),
                built_on=tuple(use.built_on),
                against=tuple(use.against),
                ruled_out=tuple(use.ruled_out),
            )
        )
    return tuple(sorted(found, key=lambda p: (-len(p.built_on), -len(p.shown), p.paper_id)))
