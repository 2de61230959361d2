"""A campaign whose ideas grow trees: an author that follows a script, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from random import Random

from bench_campaign import CampaignBench, ScriptedAuthor, ScriptedTrials, scored

from hpcscientist.campaign.waiting import OnEnd, OnStart
from hpcscientist.history import journal
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
from hpcscientist.records.events import AttemptWritten, AuthorGaveUp
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, Outcome, Stage, TrialSpec

CRASH = IdeaFailed(failure=IdeaFailure.ERROR, detail="ValueError: x")
CAUGHT = IdeaFailed(failure=IdeaFailure.TAMPERING, detail="it wrote result.arrow")
Judge = Callable[[TrialSpec], Outcome | None]


class TreeAuthor(ScriptedAuthor):
    """Writes a comment a version, named by what it is made from; `refuses` versions by number.

    `doubles` maps a version to the comment that it has instead of its own. `draw` has it take
    longer or shorter, as that says.
    """

    def __init__(
        self,
        bench: CampaignBench,
        refuses: Collection[int] = (),
        doubles: Mapping[int, str] | None = None,
        draw: Random | None = None,
    ) -> None:
        super().__init__(bench.recipe)
        self._refuses, self._doubles, self._draw = refuses, dict(doubles or {}), draw
        self.redrafting: list[RedraftTask] = []
        self.improving: list[ImproveTask] = []
        self.extending: list[ExtendTask] = []
        self.completing: list[CompleteTask] = []
        self.at_work = self.most_at_work = 0

    async def write(self, brief: Brief) -> Draft | GaveUp:
        return await self._made(1, "d1")

    async def redraft(self, task: RedraftTask) -> Draft | GaveUp:
        self.redrafting.append(task)
        return await self._made(task.number, f"d{task.number}")

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        self.tasks.append(task)
        if not task.node:
            return GaveUp(reason="no more ideas")
        return await self._made(task.node, f"m{task.node}")

    async def improve(self, task: ImproveTask) -> Draft | GaveUp:
        self.improving.append(task)
        return await self._made(task.number, f"i{task.number}")

    async def extend(self, task: ExtendTask) -> Draft | GaveUp:
        self.extending.append(task)
        return self._draft(f"run {task.number}")

    async def complete(self, task: CompleteTask) -> Draft | GaveUp:
        self.completing.append(task)
        return self._draft(f"completed {task.round}")

    async def _made(self, number: int, comment: str) -> Draft | GaveUp:
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        await turns(self._draw)
        self.at_work -= 1
        if number in self._refuses:
            return GaveUp(reason=f"cannot make {number}")
        return self._draft(self._doubles.get(number, comment))


async def turns(draw: Random | None, otherwise: int = 1) -> None:
    """Let others go on for a while."""
    for _ in range(draw.randrange(6) if draw else otherwise):
        await asyncio.sleep(0)


class SlowTrials(ScriptedTrials):
    """Trials that take a while; counts how many pilots of ideas run at once."""

    draw: Random | None = None
    at_once = most_at_once = 0

    async def run(self, trials: Sequence[TrialSpec], on_start: OnStart, on_end: OnEnd) -> None:
        pilots = sum(t.stage is Stage.PILOT and t.idea_id != BASELINE_ID for t in trials)
        SlowTrials.at_once += pilots
        SlowTrials.most_at_once = max(SlowTrials.most_at_once, SlowTrials.at_once)
        try:
            await turns(SlowTrials.draw, otherwise=50)
            await super().run(trials, on_start, on_end)
        finally:
            SlowTrials.at_once -= pilots


def tree_bench(
    folder: Path, ideas: int = 1, retries: int = 2, **authoring: object
) -> CampaignBench:
    loop = {"machine_retries": retries, "debug_rounds": 1, "confirm": False, "drift_every": 0}
    bench = CampaignBench(folder, ideas=ideas, **loop)
    own: dict[str, object] = {"search": "tree", "drafts": 2, "nodes": 6, "workers": 2}
    bench.configure(authoring=own | {"debug_share": 0.5, "hopeless": 0.0} | authoring)
    return bench


def piloted(fates: Mapping[int, float | Outcome | None], otherwise: float = 0.5) -> Judge:
    """Judge an idea's pilots by their attempts; all else is scored alike."""

    def judge(spec: TrialSpec) -> Outcome | None:
        if spec.idea_id == BASELINE_ID or spec.stage is not Stage.PILOT:
            return scored(otherwise)
        fate = fates.get(spec.attempt, otherwise)
        return scored(fate) if isinstance(fate, float) else fate

    return judge


def lineage(bench: CampaignBench) -> list[tuple[int, int, str]]:
    """Attempts by number, but for doubles: number, parent, kind."""
    events = journal.read(bench.paths.journal)
    doubles = {e.attempt for e in events if isinstance(e, AuthorGaveUp)}
    written = (e for e in events if isinstance(e, AttemptWritten) and e.attempt not in doubles)
    return sorted((e.attempt, e.parent, e.kind) for e in written)


def measured(backend: ScriptedTrials) -> set[int]:
    """Attempts of ideas that were run with every seed."""
    mark = "-search-"
    return {int(t.split("-")[2][1:]) for t, _ in backend.ran if mark in t and "idea" in t}
