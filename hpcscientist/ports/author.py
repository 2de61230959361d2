"""The port to whatever turns an idea into code."""

from __future__ import annotations

from typing import Protocol

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


class Author(Protocol):
    """Writes the code of ideas, mends it, completes it, improves it, and varies it.

    Obligations: returns whole sets of files, never touches the disk; only files that the
    recipe lets be changed differ from the reference, or from the files of the task; a draft
    compiles, and is not the unchanged reference. One that answers a task is no version that the
    task has seen; one that mends, completes, improves or extends is not the same program as the
    task's. May be called concurrently, for one idea too. An author that cannot go on returns
    GaveUp with a one-line reason; endpoint faults are raised as EndpointError.
    """

    async def write(self, brief: Brief) -> Draft | GaveUp:
        """Write the first version, from the reference."""
        ...

    async def redraft(self, task: RedraftTask) -> Draft | GaveUp:
        """Write another first version, from the reference, unlike the earlier ones."""
        ...

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        """Mend a version whose trial failed."""
        ...

    async def complete(self, task: CompleteTask) -> Draft | GaveUp:
        """Add to a version that runs what a reviewer found lacking."""
        ...

    async def improve(self, task: ImproveTask) -> Draft | GaveUp:
        """Make a version that runs better, as the primary metric has it."""
        ...

    async def extend(self, task: ExtendTask) -> Draft | GaveUp:
        """Change a version that was scored as a further run asks."""
        ...
