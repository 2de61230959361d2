"""Materials as long as real ones, for prompts that are only weighed."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from hpcscientist.config.settings import Settings
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.asked.vetting import Direction, DirectionsReply
from hpcscientist.records.base import Record
from hpcscientist.records.idea import Proposal
from hpcscientist.records.known.literature import (
    Formula,
    FormulaHit,
    Hit,
    Paper,
    SearchBy,
    SymbolHit,
)
from hpcscientist.records.known.survey import Concept, ConceptsReply

# Where a recipe has no seed ideas to take them from: characters of a proposal's parts.
TITLE, PART, SUMMARY = 60, 500, 300
_ABSTRACT, _FORMULA = 1500, 120  # characters
LOG = 4000  # characters of a failed trial's output; a traceback and what came before it


def sample_proposal(recipe: Recipe) -> Proposal:
    """A proposal as long as the recipe's seed ideas are on average."""
    seeds = recipe.seed_ideas

    def text(name: str, size: int) -> str:
        known = [len(getattr(seed, name)) for seed in seeds]
        return filler(max(1, round(fmean(known))) if known else size)

    return Proposal(
        title=text("title", TITLE),
        hypothesis=text("hypothesis", PART),
        method=text("method", PART),
        experiment_plan=text("experiment_plan", PART),
        summary=text("summary", SUMMARY),
    )


def answers(sample: Proposal, settings: Settings) -> dict[str, Record]:
    """Return the replies, by stage, without which a later stage would not be asked."""
    direction = Direction(title=filler(TITLE), summary=filler(SUMMARY))
    concept = Concept(name=filler(TITLE), definition=filler(SUMMARY), query=filler(TITLE))
    return {
        "propose": sample,
        "directions": DirectionsReply(directions=(direction,) * settings.proposing.directions),
        "concepts": ConceptsReply(concepts=(concept,)),
    }


@dataclass(frozen=True, slots=True)
class Shelf:
    """A library that finds as many papers as it is asked for, each as long as papers are."""

    fingerprint: str = ""

    def __len__(self) -> int:
        return 1

    def search(self, query: str, limit: int = 10, by: SearchBy = "both") -> tuple[Hit, ...]:
        """Return papers that differ in their ids alone."""
        return tuple(
            Hit(
                paper_id=f"title:{number}",
                title=filler(TITLE),
                abstract=filler(_ABSTRACT),
                year=None,
                origin="",
                score=0.0,
            )
            for number in range(limit)
        )

    def paper(self, paper_id: str) -> Paper | None:
        """Return nothing: no paper's text is shown."""
        return None

    def formulas(self, query: str, limit: int = 10) -> tuple[FormulaHit, ...]:
        """Return formulas that differ in their ids alone."""
        formula = Formula(text=filler(_FORMULA), context=filler(SUMMARY))
        return tuple(
            FormulaHit(
                formula_id=f"title:{number}#f1",
                paper_id=f"title:{number}",
                title=filler(TITLE),
                formula=formula,
            )
            for number in range(limit)
        )

    def symbols(self, query: str, limit: int = 10) -> tuple[SymbolHit, ...]:
        """Return nothing: it holds no code."""
        return ()


def traceback(recipe: Recipe) -> str:
    """What Python prints where the last line of the entry script fails."""
    entry = recipe.spec.entry
    lines = recipe.reference[entry].rstrip().split("\n")
    return (
        "Traceback (most recent call last):\n"
        f'  File "/code/{entry}", line {len(lines)}, in <module>\n    {lines[-1].strip()}\n'
        "RuntimeError: x\n"
    )


def filler(size: int) -> str:
    """Return a text of so many characters."""
    return "x" * size
