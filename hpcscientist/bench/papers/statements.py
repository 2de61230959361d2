"""Runs the checks of manuscripts on false and true statements, and counts refusals.

Each statement is placed alone in an otherwise true manuscript. A third of the statements was
written after the checks, without looking at them; their recall is reported separately.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources

from hpcscientist.bench.figure import Figure
from hpcscientist.bench.papers.campaign import PaperShelf, sheet
from hpcscientist.papers.check import check
from hpcscientist.records.facts import FactSheet
from hpcscientist.records.manuscript import (
    Defect,
    DefectCode,
    Manuscript,
    NotRestrictedText,
    PaperScope,
    Place,
    Section,
    Support,
    parse_blocks,
)

_REST = (
    "The campaign tried {campaign.ideas.proposed} ideas, of which {campaign.ideas.failed} failed. "
    "All p-values are adjusted for the number of ideas."
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its kind, its text, and what supports its citation.

    `held_out`: it was written after the checks, and first tested when they were done.
    """

    kind: str
    text: str
    paper_id: str = ""
    quote: str = ""
    held_out: bool = False


def statements(name: str) -> Iterator[Statement]:
    """Read the statements of a file: `false_statements` or `true_statements`."""
    file = resources.files("hpcscientist.bench.papers").joinpath(f"{name}.jsonl")
    for line in file.read_text(encoding="utf-8").splitlines():
        yield Statement(**json.loads(line))


def defects(statement: Statement, facts: FactSheet, papers: PaperShelf) -> list[Defect]:
    """Return the defects that the checks find in a statement."""
    try:
        blocks = parse_blocks(statement.text)
    except NotRestrictedText as error:
        place = Place(section="results")
        return [Defect(code=error.code, place=place, found=error.found, fix=str(error))]
    support = Support(paper_id=statement.paper_id, sentence=statement.text, quote=statement.quote)
    manuscript = Manuscript(
        title="A campaign on recordings",
        abstract=parse_blocks(_REST),
        sections=(Section(id="results", title="Results", blocks=blocks),),
        supports=(support,) if statement.paper_id else (),
        scope=PaperScope(campaign_id=facts.campaign_id),
    )
    return [d for d in check(manuscript, facts, papers) if d.code is not DefectCode.UNCITED_PAPER]


def figures() -> list[Figure]:
    """Return the recall by kind, the recall on held-out statements, and the false alarms."""
    facts, papers = sheet(), PaperShelf()
    false = [(s, bool(defects(s, facts, papers))) for s in statements("false_statements")]
    true = [(s, bool(defects(s, facts, papers))) for s in statements("true_statements")]
    found = [_share("false statements refused", [r for _, r in false], target=1.0, at_least=True)]
    out = [refused for s, refused in false if s.held_out]
    found.append(
        _share(
            "of those written when the checks were done (62 of 65 at first sight)",
            out,
            target=0.95,
            at_least=True,
        )
    )
    for kind in dict.fromkeys(s.kind for s, _ in false):
        own = [refused for s, refused in false if s.kind == kind]
        found.append(_share(f"refused: {kind.replace('_', ' ')}", own))
    found.append(_share("true statements refused", [r for _, r in true], target=0.0))
    out = [refused for s, refused in true if s.held_out]
    found.append(_share("of those written when the checks were done (2 of 39 at first sight)", out))
    return found


def _share(
    name: str, refused: Sequence[bool], target: float | None = None, *, at_least: bool = False
) -> Figure:
    return Figure(
        name=f"{name}: {sum(refused)} of {len(refused)}",
        value=sum(refused) / len(refused) if refused else 0.0,
        unit="",
        compared_with=None,
        ratio=None,
        target=target,
        spread=0.0,
        runs=1,
        at_least=at_least,
    )
