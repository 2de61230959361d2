"""The port to whatever turns an idea into code."""

from __future__ import annotations

from typing import Protocol

from hpcscientist.records.authoring import Draft, FixTask, GaveUp
from hpcscientist.records.idea import Idea


class Author(Protocol):
    """Writes and mends the code of ideas.

    Obligations: returns whole sets of files, never touches the disk; only editable files
    differ from the reference; a draft compiles. May be called concurrently for different
    ideas. An author that cannot go on returns GaveUp with a one-line reason; endpoint
    faults are raised as EndpointError.
    """

    async def write(self, idea: Idea) -> Draft | GaveUp:
        """Write the first version."""
        ...

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        """Mend a version whose trial failed."""
        ...
