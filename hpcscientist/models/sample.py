"""A made-up idea midway through a campaign, used to size prompts before anything is run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hpcscientist.config.extent import Versions
from hpcscientist.config.settings import Settings
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.authoring import Brief
from hpcscientist.records.idea import Idea
from hpcscientist.records.proposing import ProposalTask

# Characters of a proposal's parts, and of a failed trial's output (a traceback and the lines
# before it).
TITLE_SIZE, PART_SIZE, SUMMARY_SIZE, LOG_SIZE = 60, 500, 300, 4000


@dataclass(frozen=True, slots=True)
class Sample:
    """An idea, its proposer's task and its coder's brief; `stages` are names of stages."""

    recipe: Recipe
    settings: Settings
    stages: Collection[str]
    versions: Versions
    idea: Idea
    task: ProposalTask

    @property
    def brief(self) -> Brief:
        """The input of a coder."""
        return Brief(idea=self.idea)


def filler(size: int) -> str:
    """Return a text of `size` characters."""
    return "x" * size


def traceback(recipe: Recipe) -> str:
    """Return what Python prints if the last line of the entry script fails."""
    entry = recipe.spec.entry
    lines = recipe.reference[entry].rstrip().split("\n")
    return (
        "Traceback (most recent call last):\n"
        f'  File "/code/{entry}", line {len(lines)}, in <module>\n    {lines[-1].strip()}\n'
        "RuntimeError: x\n"
    )
