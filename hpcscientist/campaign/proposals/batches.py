"""Batches of ideas, told apart before they are proposed in parallel.

A batch is a run of idea numbers. Which ideas belong together depends on their numbers alone, and
so does what was asked for them, so that a replay gives the same whatever goes on side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import RootModel

from hpcscientist.campaign.integrity import Integrity
from hpcscientist.campaign.once import once
from hpcscientist.config.extent import Extent
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.idea import idea_id_of
from hpcscientist.records.proposing import BatchTask, Direction, ProposalTask

if TYPE_CHECKING:
    from hpcscientist.ideation.directions import DirectionFinder
    from hpcscientist.models.recorded import RecordedModel

_FIRST_CALL = "directions/1"  # of a batch


class Directions(RootModel[tuple[Direction | None, ...]]):
    """The content of directions.json: one a number of the batch, in their order."""


Given = tuple[Direction | None, tuple[str, ...]]


@dataclass(slots=True)
class Batches:
    """Gives each idea its direction; whoever of a batch comes first has them found for all."""

    extent: Extent
    finder: DirectionFinder
    size: int
    paths: RunPaths | None = None
    record: RecordedModel | None = None
    integrity: Integrity | None = None
    _found: dict[int, asyncio.Task[tuple[Direction | None, ...]]] = field(default_factory=dict)

    def of(self, number: int, round_number: int) -> tuple[int, ...]:
        """The ideas of one batch; a batch ends with its round. The control arm's are not told."""
        return self.extent.batch(number, round_number, self.size)

    def leader(self, number: int, round_number: int) -> str:
        """The id under which the directions of an idea's batch are asked for."""
        return idea_id_of(self.of(number, round_number)[0])

    async def direction(
        self, number: int, round_number: int, task: Callable[[str, int], ProposalTask]
    ) -> Given:
        """Return an idea's direction, and the titles of those of the others of its batch.

        `task` makes the proposal task of an idea by id and number. Raises EndpointError.
        """
        batch = self.of(number, round_number)
        first = batch[0]
        if first not in self._found or _failed(self._found[first]):
            asked = self._asked(first, batch, task)
            found = self._found[first] = asyncio.create_task(self._find(asked))
            # Where a campaign is stopped nobody may be left who asks how it ended.
            found.add_done_callback(_failed)
        # One idea that is cancelled takes nothing from the others.
        directions = await asyncio.shield(self._found[first])
        own = batch.index(number)
        others = [d.title for i, d in enumerate(directions) if d is not None and i != own]
        return directions[own], tuple(others)

    async def _find(self, asked: BatchTask) -> tuple[Direction | None, ...]:
        async def find() -> Directions:
            return Directions(await self.finder.find(asked))

        if self.paths is None:
            return (await find()).root
        path = self.paths.idea(asked.first.idea_id).directions
        return (await once(path, Directions, find, self.integrity)).root

    def _asked(
        self, first: int, batch: tuple[int, ...], task: Callable[[str, int], ProposalTask]
    ) -> BatchTask:
        """What a batch is told apart by: as it was when that began, if it has."""
        leader = idea_id_of(first)
        if self.record is not None:
            begun = self.record.begun(leader, _FIRST_CALL, BatchTask)
            if begun is not None:
                return begun
        asked = BatchTask(first=task(leader, first), numbers=batch)
        if self.record is not None:
            self.record.begin(leader, _FIRST_CALL, asked)
        return asked


def _failed(task: asyncio.Task[tuple[Direction | None, ...]]) -> bool:
    """Whether it has ended, and has found nothing: then it is asked anew."""
    return task.done() and (task.cancelled() or task.exception() is not None)
