"""Vetting: checks an idea's novelty and feasibility before code is written for it.

Ideas are vetted concurrently: no verdict depends on another idea. A rejected idea keeps its file
with the verdict and the evidence for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import RootModel

from hpcscientist.campaign.integrity import Integrity
from hpcscientist.campaign.once import V, once
from hpcscientist.errors import LibraryError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import IdeaEnded, NoteTaken
from hpcscientist.records.idea import Idea
from hpcscientist.records.literature import ConceptRecord
from hpcscientist.records.proposing import Vetted

if TYPE_CHECKING:
    from hpcscientist.literature.analyst import Analyst
    from hpcscientist.models.stage import Judge, VettingStage


class Concepts(RootModel[tuple[ConceptRecord, ...]]):
    """The content of concepts.json."""


@dataclass(slots=True)
class Vetting:
    """Vets ideas with its judges, in order; `analyst` None: no concepts are looked up."""

    paths: RunPaths
    journal: Journal
    state: CampaignState
    integrity: Integrity
    judges: Sequence[tuple[VettingStage[Any], Judge]] = ()
    analyst: Analyst | None = None

    async def vet(self, idea: Idea) -> Vetted | None:
        """Return an idea that goes on, None for one that was rejected. Raises EndpointError."""
        if idea.arm == "control":  # a search uses no literature, and its settings always fit
            return Vetted(idea=idea)
        if not self.state.ideas[idea.idea_id].attempts:  # else it was vetted before
            reason = await self._objection(idea)
            if reason is not None:
                ended = IdeaEnded(
                    idea_id=idea.idea_id,
                    status="rejected",
                    reason=reason,
                    attempt=None,
                    vetted=True,
                )
                self.journal.record(ended)
                return None
        return Vetted(idea=idea, concepts=await self.concepts(idea))

    async def _objection(self, idea: Idea) -> str | None:
        for stage, judge in self.judges:
            path = self.paths.idea(idea.idea_id).verdict(stage.name)
            try:
                found = await self._once(path, stage.verdict, partial(judge.judge, idea))
            except LibraryError as error:
                # This is no evidence against the idea, and no verdict is recorded.
                self._note(f"{idea.idea_id}: its {stage.name} is undecided, for {error}")
                continue
            if found.objection is not None:
                return str(found.objection)
        return None

    async def concepts(self, idea: Idea) -> tuple[ConceptRecord, ...]:
        """Return an idea's concepts as the library knows them; they are looked up only once."""
        if self.analyst is None or idea.arm == "control":
            return ()
        analyst = self.analyst

        async def make() -> Concepts:
            return Concepts(await analyst.analyse(idea))

        try:
            path = self.paths.idea(idea.idea_id).concepts
            return (await self._once(path, Concepts, make)).root
        except LibraryError as error:
            self._note(f"{idea.idea_id}: its concepts are not looked up, for {error}")
            return ()

    async def _once(self, path: Path, kind: type[V], make: Callable[[], Awaitable[V]]) -> V:
        return await once(path, kind, make, self.integrity)

    def _note(self, text: str) -> None:
        self.journal.record(NoteTaken(name="library", text=text))
