"""Two authors in one campaign: a model's for its ideas, the control arm's for those of a search."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.ports.author import Author
from hpcscientist.records.asked.authoring import (
    Brief,
    CompleteTask,
    Draft,
    ExtendTask,
    FixTask,
    GaveUp,
    ImproveTask,
    RedraftTask,
)
from hpcscientist.records.idea import Idea


@dataclass(frozen=True, slots=True)
class TwoArms:
    """Hands each task to the author of its idea's arm; implements `ports.author.Author`."""

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
        """Mend a version whose trial failed."""
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
