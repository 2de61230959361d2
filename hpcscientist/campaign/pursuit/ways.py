"""The two ways of an idea to code that is scored: one version to its end, or a tree of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hpcscientist.campaign.pursuit.course import Course, End, Leg
from hpcscientist.campaign.pursuit.craft import Craft
from hpcscientist.campaign.pursuit.legs import Legs
from hpcscientist.records.idea import Idea


class Way(Protocol):
    """Takes an idea from its brief to the end of its first leg."""

    async def go(self, course: Course) -> End:
        """Have versions written and tried. Raises EndpointError, DiskFull."""
        ...


@dataclass(frozen=True, slots=True)
class Line:
    """One first version, taken to its end."""

    craft: Craft
    legs: Legs

    async def go(self, course: Course) -> End:
        """Have the first version written, and take it through its leg."""
        brief, author = course.brief, self.craft.author
        written = await self.craft.ask(brief, "code", 1, lambda: author.write(brief))
        return await self.legs.go(course, Leg(run=0, kind="draft"), written)


@dataclass(frozen=True, slots=True)
class Ways:
    """Which way an idea goes. A setting of the control arm has one version and no other."""

    line: Way
    tree: Way | None = None

    def of(self, idea: Idea) -> Way:
        """Return the way of an idea."""
        return self.tree if self.tree is not None and idea.arm == "model" else self.line
