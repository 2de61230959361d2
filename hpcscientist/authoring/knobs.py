"""The control arm's author: sets module-level constants of the reference code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcscientist.ports import Author
from hpcscientist.recipe.knobs import set_constants
from hpcscientist.records.authoring import (
    Brief,
    CompleteTask,
    Draft,
    ExtendTask,
    FixTask,
    GaveUp,
    ImproveTask,
    RedraftTask,
)
from hpcscientist.records.idea import Idea, KnobValue

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe


class KnobAuthor:
    """Writes an idea's knobs into the reference; implements `ports.Author`."""

    def __init__(self, recipe: Recipe) -> None:
        self._reference = dict(recipe.reference)
        self._file_of = {knob.name: knob.file for knob in recipe.spec.knobs}

    async def write(self, brief: Brief) -> Draft | GaveUp:
        """Return the reference with the idea's knobs set; it has neither concepts nor plan.

        Raises RecipeError where a constant is missing, which loading a recipe rules out.
        """
        idea = brief.idea
        if not idea.knobs:
            return GaveUp(reason="the idea sets no knobs")
        unknown = sorted(set(idea.knobs) - set(self._file_of))
        if unknown:
            return GaveUp(reason=f"the recipe has no knob {unknown[0]}")
        by_file: dict[str, dict[str, KnobValue]] = {}
        for name, value in idea.knobs.items():
            by_file.setdefault(self._file_of[name], {})[name] = value
        files = dict(self._reference)
        for file, values in by_file.items():
            files[file] = set_constants(files[file], values)
        settings = ", ".join(f"{name} = {value!r}" for name, value in idea.knobs.items())
        return Draft(files=files, note=f"Set {settings}.")

    async def redraft(self, task: RedraftTask) -> Draft | GaveUp:
        """Give up: there is one way to set constants."""
        return GaveUp(reason="the control arm writes one version")

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        """Give up: a setting that fails is a result, and there is nothing to fix."""
        return GaveUp(reason="the control arm does not debug")

    async def complete(self, task: CompleteTask) -> Draft | GaveUp:
        """Give up: setting a constant is all that such an idea says."""
        return GaveUp(reason="the control arm has nothing to complete")

    async def improve(self, task: ImproveTask) -> Draft | GaveUp:
        """Give up: better settings are other ideas of a search."""
        return GaveUp(reason="the control arm improves by searching on")

    async def extend(self, task: ExtendTask) -> Draft | GaveUp:
        """Give up: the control arm spends its trials on other settings."""
        return GaveUp(reason="the control arm makes no further runs")


# Two authors in one campaign: a model's for its ideas, the control arm's for those of a search.


@dataclass(frozen=True, slots=True)
class TwoArms:
    """Hands each task to the author of its idea's arm; implements `ports.Author`."""

    model: Author
    control: Author

    def _of(self, idea: Idea) -> Author:
        return self.control if idea.arm == "control" else self.model

    async def write(self, brief: Brief) -> Draft | GaveUp:
        """Write the first version, from the reference."""
        return await self._of(brief.idea).write(brief)

    async def redraft(self, task: RedraftTask) -> Draft | GaveUp:
        """Write another first version, from the reference, unlike the earlier ones."""
        return await self._of(task.brief.idea).redraft(task)

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        """Fix a version whose trial failed."""
        return await self._of(task.idea).fix(task)

    async def complete(self, task: CompleteTask) -> Draft | GaveUp:
        """Add to a version that runs what a reviewer found lacking."""
        return await self._of(task.brief.idea).complete(task)

    async def improve(self, task: ImproveTask) -> Draft | GaveUp:
        """Make a version that runs better, as the primary metric has it."""
        return await self._of(task.brief.idea).improve(task)

    async def extend(self, task: ExtendTask) -> Draft | GaveUp:
        """Change a version that was scored as a further run asks."""
        return await self._of(task.brief.idea).extend(task)
