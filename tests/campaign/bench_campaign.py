"""A campaign of scripted adapters in this process: the real conductor, journal and files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hpcscientist import __version__
from hpcscientist.authoring.knobs import KnobAuthor
from hpcscientist.campaign import frozen
from hpcscientist.campaign.frozen import CampaignConfig
from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.state import CampaignState
from hpcscientist.campaign.wiring import Minds, Session, Wired, assemble
from hpcscientist.config.settings import LoopSettings, Settings
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ideation.search import SearchProposer
from hpcscientist.ports.author import Author
from hpcscientist.ports.backend import OnTrial
from hpcscientist.ports.proposer import Proposer
from hpcscientist.recipe.create import create
from hpcscientist.recipe.load import Recipe, load
from hpcscientist.records.authoring import Draft, FixTask, GaveUp
from hpcscientist.records.idea import Idea, Proposal
from hpcscientist.records.outcome import Outcome, Scored
from hpcscientist.records.proposing import ProposalTask, Proposed
from hpcscientist.records.trial import Isolation, Split, TrialReport, TrialSpec, Usage
from hpcscientist.results import store

Judge = Callable[[TrialSpec], Outcome | None]


def scored(value: float) -> Scored:
    return Scored(metrics={"accuracy": value})


class ScriptedTrials:
    """A backend whose trials end at once as `judge` says; None: the worker is lost."""

    slots = 2

    def __init__(self, paths: RunPaths, judge: Judge) -> None:
        self._paths, self._judge = paths, judge
        self.ran: list[tuple[str, int]] = []

    async def run(self, trials: Sequence[TrialSpec], on_start: OnTrial, on_end: OnTrial) -> None:
        for spec in trials:
            on_start(spec)
            self.ran.append((spec.trial_id, spec.run))
            outcome = self._judge(spec)
            if outcome is not None:
                values = {m.name: 0.5 for m in spec.metrics}
                if isinstance(outcome, Scored):
                    outcome = Scored(metrics=values | {spec.metrics[0].name: _first(outcome)})
                report = TrialReport(
                    trial_id=spec.trial_id,
                    run=spec.run,
                    outcome=outcome,
                    usage=Usage(started_at=1.0, ended_at=2.0, cpu_s=1.0),
                )
                store.write_result(self._paths.trial(spec.trial_id), spec, report)
            on_end(spec)

    async def close(self) -> None:
        return None


def _first(outcome: Scored) -> float:
    return next(iter(outcome.metrics.values()))


class ScriptedProposer:
    """Proposes the summaries it was given; remembers what it was told."""

    ordered = False

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
    """Writes a comment a version; mends as long as `fixes` says."""

    def __init__(self, recipe: Recipe, fixes: int = 0) -> None:
        self._entry, self._reference = recipe.spec.entry, recipe.reference
        self._fixes = fixes
        self.tasks: list[FixTask] = []

    async def write(self, idea: Idea) -> Draft | GaveUp:
        return self._draft(f"{idea.idea_id} version 1")

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        self.tasks.append(task)
        if task.round > self._fixes:
            return GaveUp(reason="no more ideas")
        return self._draft(f"{task.idea.idea_id} version {task.round + 1}")

    def _draft(self, comment: str) -> Draft:
        code = f"{self._reference[self._entry]}\n# {comment}\n"
        return Draft(files={**self._reference, self._entry: code}, note=comment)


class CampaignBench:
    """Makes a run directory and drives it with scripted adapters, again and again."""

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
            settings=Settings(
                ideas=ideas, loop=LoopSettings.model_validate({"machine_pause_s": 0.0, **loop})
            ),
        )
        frozen.write(self.paths, self.config)
        self.state = CampaignState()
        self.generation = 0

    @property
    def seeds(self) -> int:
        return self.recipe.spec.seeds

    async def drive(
        self, judge: Judge, proposer: Proposer, author: Author | None = None
    ) -> ScriptedTrials:
        """Drive the campaign as a new driver would, from whatever is on the disk."""
        self.state = CampaignState()
        self.generation += 1
        journal = Journal(self.paths.journal, self.state.apply)
        session = Session(self.paths, journal, self.state, self.generation)
        backend = ScriptedTrials(self.paths, judge)
        minds = Minds(proposer, author or ScriptedAuthor(self.recipe), None)
        wired: Wired = assemble(self.config, self.recipe, session, minds, backend)
        try:
            await wired.conductor.run()
        finally:
            await wired.close()
            journal.close()
        return backend

    async def search(self, judge: Judge) -> ScriptedTrials:
        proposer = SearchProposer(self.recipe, self.config.settings.seed)
        return await self.drive(judge, proposer, KnobAuthor(self.recipe))

    def ended(self) -> dict[str, tuple[str, str | None]]:
        return {
            idea_id: (idea.ended.status, idea.ended.reason)
            for idea_id, idea in self.state.ideas.items()
            if idea.ended is not None
        }
