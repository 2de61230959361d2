"""Shows the role of the literature: which ideas each paper inspired, and which it ruled out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import printable, visible
from hpcscientist.views.cards import read_idea, read_novelty, read_survey
from hpcscientist.views.ideas import IdeaView


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
    survey = read_survey(paths)
    known = {paper.paper_id: paper for paper in survey.papers} if survey else {}
    uses = {paper_id: _Uses() for paper_id in known}
    for view in ideas:
        place = paths.idea(view.idea_id)
        idea = read_idea(place)
        for paper_id in idea.papers if idea else ():
            uses.setdefault(paper_id, _Uses()).shown.append(view.idea_id)
        for paper_id in idea.proposal.papers if idea else ():
            uses.setdefault(paper_id, _Uses()).built_on.append(view.idea_id)
        novelty = read_novelty(place)
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
