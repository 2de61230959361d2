"""Vetting: what is known of an idea, and what it would need, before code is written for it.

Ideas are vetted side by side: no verdict depends on another idea. An idea that is set aside
keeps its file with the verdict and what it rests on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import RootModel

from hpcscientist.campaign.integrity import Integrity
from hpcscientist.campaign.once import V, once
from hpcscientist.errors import LibraryError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.records.asked.vetting import FeasibilityVerdict, NoveltyVerdict, Vetted
from hpcscientist.records.events import IdeaEnded, NoteTaken
from hpcscientist.records.idea import Idea
from hpcscientist.records.known.survey import ConceptRecord

if TYPE_CHECKING:
    from hpcscientist.ideation.feasibility import FeasibilityJudge
    from hpcscientist.ideation.novelty import NoveltyJudge
    from hpcscientist.literature.analyst import Analyst


class Concepts(RootModel[tuple[ConceptRecord, ...]]):
    """The content of concepts.json."""


@dataclass(slots=True)
class Vetting:
    """Vets ideas; a judge that is None is left out."""

    paths: RunPaths
    journal: Journal
    state: CampaignState
    integrity: Integrity
    novelty: NoveltyJudge | None = None
    feasibility: FeasibilityJudge | None = None
    analyst: Analyst | None = None

    async def vet(self, idea: Idea) -> Vetted | None:
        """Return an idea that goes on; None for one whose end is recorded. Raises EndpointError."""
        if idea.arm == "control":  # a search knows no literature, and cannot but fit the recipe
            return Vetted(idea=idea)
        if not self.state.ideas[idea.idea_id].attempts:  # else what was said then stands
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
        folder = self.paths.idea(idea.idea_id)
        if self.novelty is not None:
            judge = self.novelty
            try:
                known = await self._once(folder.novelty, NoveltyVerdict, lambda: judge.judge(idea))
            except LibraryError as error:
                # No evidence against an idea, and no verdict that would stand for good.
                self._note(f"{idea.idea_id}: its novelty is undecided, for {error}")
            else:
                if known.decision == "not_novel":
                    return f"not novel: {_evidence(known)}"
        if self.feasibility is not None:
            estimate = self.feasibility
            fits = await self._once(
                folder.feasibility, FeasibilityVerdict, lambda: estimate.judge(idea)
            )
            if not fits.fits:
                return f"set aside, not feasible: {'; '.join(fits.problems) or fits.reason}"
        return None

    async def concepts(self, idea: Idea) -> tuple[ConceptRecord, ...]:
        """Return what an idea consists of, as the library knows it; looked up once."""
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


def _evidence(verdict: NoveltyVerdict) -> str:
    cited = [f"{c.paper_id} ({c.why.rstrip('.')})" for c in verdict.evidence]
    return "; ".join([*cited, verdict.reason])
