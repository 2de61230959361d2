"""The control arm's author, which sets module-level constants of the reference code."""

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
    """An author that writes an idea's knobs into the reference; implements `ports.Author`."""

    def __init__(self, recipe: Recipe) -> None:
        self._reference = dict(recipe.reference)
        self._file_of = {knob.name: knob.file for knob in recipe.spec.knobs}

    async def write(self, brief: Brief) -> Draft | GaveUp:
        """Return the reference with the idea's knobs set; concepts and plan are ignored.

        Raises RecipeError if a constant is missing, which loading a recipe rules out.
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
        """Give up: there is only one way to set constants."""
        return GaveUp(reason="the control arm writes one version")

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        """Give up: a setting that fails is itself a result, so there is nothing to fix."""
        return GaveUp(reason="the control arm does not debug")

    async def complete(self, task: CompleteTask) -> Draft | GaveUp:
        """Give up: the idea asks for constants alone, and they are already set."""
        return GaveUp(reason="the control arm has nothing to complete")

    async def improve(self, task: ImproveTask) -> Draft | GaveUp:
        """Give up: better settings come from the search as further ideas."""
        return GaveUp(reason="the control arm improves by searching on")

    async def extend(self, task: ExtendTask) -> Draft | GaveUp:
        """Give up: the control arm spends its trials on other settings."""
        return GaveUp(reason="the control arm makes no further runs")


# Two authors in one campaign: a model for its own ideas, the control arm's for the search's ideas.


@dataclass(frozen=True, slots=True)
class TwoArms:
    """An author that passes each task to the author of the idea's arm; see `ports.Author`."""

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
        """Add what a reviewer found lacking to a version that runs."""
        return await self._of(task.brief.idea).complete(task)

    async def improve(self, task: ImproveTask) -> Draft | GaveUp:
        """Improve a version that runs, by the primary metric."""
        return await self._of(task.brief.idea).improve(task)

    async def extend(self, task: ExtendTask) -> Draft | GaveUp:
        """Change a scored version as a further run asks."""
        return await self._of(task.brief.idea).extend(task)
