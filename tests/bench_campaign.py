"""Runs a campaign with scripted adapters in this process: real conductor, journal and files."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from event_kit import driver_started

from hpcscientist import __version__
from hpcscientist.authoring.knobs import KnobAuthor
from hpcscientist.campaign.agents import Agents, Session
from hpcscientist.campaign.integrity import FileIntegrity
from hpcscientist.campaign.stages import Opened
from hpcscientist.campaign.waiting import OnEnd, OnStart
from hpcscientist.config.settings import LoopSettings, Settings
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.ideation.search import SearchProposer
from hpcscientist.launching.wiring import Wired, assemble
from hpcscientist.ports import Author, Proposer, Reconsider
from hpcscientist.recipe.create import create
from hpcscientist.recipe.load import Recipe, load
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
from hpcscientist.records.idea import Proposal
from hpcscientist.records.proposing import ProposalTask, Proposed
from hpcscientist.records.trial import (
    Isolation,
    Outcome,
    Scored,
    Split,
    TrialReport,
    TrialSpec,
    Usage,
)
from hpcscientist.results import store

Judge = Callable[[TrialSpec], Outcome | None]
Predictions = Callable[[TrialSpec], str]


def _own_predictions(spec: TrialSpec) -> str:
    """Return different predictions for each version of the code."""
    return spec.provenance.code_hash


def scored(value: float) -> Scored:
    return Scored(metrics={"accuracy": value})


class ScriptedTrials:
    """A backend whose trials end at once with `judge`'s outcome; None: the worker is lost."""

    slots = 2
    outlives_driver = False

    def __init__(
        self,
        paths: RunPaths,
        judge: Judge,
        predictions: Predictions = _own_predictions,
        node: str = "",
        pace: random.Random | None = None,
    ) -> None:
        """`pace` draws how many turns of the event loop a trial takes; None: none."""
        self._paths, self._judge, self._predictions = paths, judge, predictions
        self._node, self._pace = node, pace
        self.ran: list[tuple[str, int]] = []
        self.avoided: set[str] = set()

    async def run(self, trials: Sequence[TrialSpec], on_start: OnStart, on_end: OnEnd) -> None:
        for spec in trials:
            on_start(spec)
            self.ran.append((spec.trial_id, spec.run))
            for _ in range(self._pace.randrange(100) if self._pace else 0):
                await asyncio.sleep(0)
            outcome = self._judge(spec)
            if outcome is not None:
                values = {m.name: 0.5 for m in spec.metrics}
                if isinstance(outcome, Scored):
                    others = dict(list(outcome.metrics.items())[1:])
                    first = {spec.metrics[0].name: _first(outcome)}
                    outcome = Scored(metrics=values | first | others)
                report = TrialReport(
                    trial_id=spec.trial_id,
                    run=spec.run,
                    outcome=outcome,
                    usage=Usage(started_at=1.0, ended_at=2.0, cpu_s=1.0, node=self._node),
                    predictions_hash=self._predictions(spec),
                )
                store.write_result(self._paths.trial(spec.trial_id), spec, report)
            on_end(spec, None)

    def avoid(self, nodes: Collection[str]) -> None:
        self.avoided = set(nodes)

    def let_go(self) -> None:
        return None

    async def close(self) -> None:
        return None


def _first(outcome: Scored) -> float:
    return next(iter(outcome.metrics.values()))


class ScriptedProposer:
    """A proposer of given summaries, which records its tasks."""

    by_outcomes = False

    def __init__(self, *summaries: str | Exception) -> None:
        self._summaries = summaries
        self.tasks: list[ProposalTask] = []

    async def propose(self, task: ProposalTask) -> Proposed:
        self.tasks.append(task)
        summary = self._summaries[task.number - 1]
        if isinstance(summary, Exception):
            raise summary
        proposal = Proposal(
            title=f"Idea {task.number}",
            hypothesis="h",
            method="m",
            experiment_plan="p",
            summary=summary,
        )
        return Proposed(proposal=proposal)


class ScriptedAuthor:
    """An author that writes one comment per version, and fixes code up to `fixes` times."""

    def __init__(self, recipe: Recipe, fixes: int = 0) -> None:
        self._entry, self._reference = recipe.spec.entry, recipe.reference
        self._fixes = fixes
        self.tasks: list[FixTask] = []

    async def write(self, brief: Brief) -> Draft | GaveUp:
        return self._draft(f"{brief.idea.idea_id} version 1")

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        self.tasks.append(task)
        if task.round > self._fixes:
            return GaveUp(reason="no more ideas")
        return self._draft(f"{task.idea.idea_id} version {task.round + 1}")

    async def redraft(self, task: RedraftTask) -> Draft | GaveUp:
        return GaveUp(reason="no other way")

    async def improve(self, task: ImproveTask) -> Draft | GaveUp:
        return GaveUp(reason="nothing to improve")

    async def complete(self, task: CompleteTask) -> Draft | GaveUp:
        return GaveUp(reason="nothing to complete")

    async def extend(self, task: ExtendTask) -> Draft | GaveUp:
        return GaveUp(reason="nothing to extend")

    def _draft(self, comment: str) -> Draft:
        code = f"{self._reference[self._entry]}\n# {comment}\n"
        return Draft(files={**self._reference, self._entry: code}, note=comment)


class CampaignBench:
    """A run directory that scripted adapters can drive any number of times."""

    def __init__(self, folder: Path, ideas: int, **loop: int | float) -> None:
        self.recipe = load(create("scripted", folder))
        self.paths = RunPaths(folder / "run")
        self.paths.trials.mkdir(parents=True)
        self.paths.recipe.symlink_to(self.recipe.folder)
        nowhere = {Split.VALIDATION: os.devnull, Split.TEST: os.devnull}
        self.config = CampaignConfig(
            campaign_id="scripted-1",
            created="2026-01-01T00:00:00+00:00",
            package_version=__version__,
            python=sys.executable,
            recipe_name="scripted",
            recipe_origin=str(self.recipe.folder),
            recipe_hash=self.recipe.recipe_hash,
            data_hash="",
            views=nowhere,
            labels=nowhere,
            model_spec="scripted",
            model_name="scripted",
            isolation=Isolation.NONE,
            slots=2,
            in_flight=2,
            lag=2,
            settings=Settings(
                ideas=ideas, loop=LoopSettings.model_validate({"machine_pause_s": 0.0, **loop})
            ),
        )
        frozen.write(self.paths, self.config)
        self.state = CampaignState()
        self.generation = 0
        self.predictions: Predictions = _own_predictions
        self.pace: random.Random | None = None  # trials end at once
        self.catches_nothing_done = False
        self.trusted = False  # whether the campaign keeps a copy of its records

    def configure(self, **sections: dict[str, object]) -> None:
        """Change sections of the configuration before the campaign is driven."""
        changed = self.config.settings.model_dump() | sections
        settings = Settings.model_validate(changed)
        self.config = self.config.model_copy(update={"settings": settings})

    @property
    def seeds(self) -> int:
        return self.recipe.spec.seeds

    async def drive(
        self,
        judge: Judge,
        proposer: Proposer,
        author: Author | None = None,
        stages: Opened | None = None,
        control: Proposer | None = None,
        reconsider: Reconsider | None = None,
    ) -> ScriptedTrials:
        """Drive the campaign as a new driver would, from the files on disk."""
        self.state = CampaignState()
        self.generation += 1
        if self.trusted:
            frozen.make_copy(self.paths)
        journal = Journal(self.paths.journal, self.state.apply)
        journal.record(driver_started(self.generation))
        session = Session(self.paths, journal, self.state, self.generation)
        backend = ScriptedTrials(self.paths, judge, self.predictions, pace=self.pace)
        author = author or ScriptedAuthor(self.recipe)
        agents = Agents(
            *(proposer, author, None),
            stages=stages or Opened(),
            control=control,
            reconsider=reconsider,
        )
        integrity = FileIntegrity.of(self.paths, journal, self.state, self.config)
        if self.trusted:
            integrity.begin()
        wired: Wired = assemble(
            *(self.config, self.recipe, session, agents, backend), integrity=integrity
        )
        self._judge_pilots(wired)
        try:
            await wired.conductor.run()
        finally:
            await wired.close()
            journal.close()
        return backend

    def _judge_pilots(self, wired: Wired) -> None:
        """Catch versions that do nothing, which campaigns without a language model do not."""
        judging = replace(wired.conductor.rules.judging, catches_nothing_done=True)
        rules = replace(wired.conductor.rules, judging=judging)
        if self.catches_nothing_done:
            wired.conductor.rules = wired.conductor.performers.idea_runner.rules = rules

    def control(self) -> SearchProposer:
        """Return a new control arm, as each driver creates one."""
        return SearchProposer(self.recipe, self.config.settings.seed)

    async def search(self, judge: Judge) -> ScriptedTrials:
        return await self.drive(judge, self.control(), KnobAuthor(self.recipe))

    def ended(self) -> dict[str, tuple[str, str | None]]:
        return {
            idea.idea_id: (idea.ended.status, idea.ended.reason)
            for idea in self.state.in_order()
            if idea.ended is not None
        }
