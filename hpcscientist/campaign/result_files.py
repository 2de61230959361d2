"""Restores result files from the journal if they are missing or differ, and compacts them.

The journal holds every full report, and each of its lines is signed. So a result file that was
deleted or changed does not cost another run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hpcscientist.campaign.integrity import make_way
from hpcscientist.campaign.proposals.idea_file import known_idea
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.errors import IdeaDamaged
from hpcscientist.execution import folders
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.entities import TrialState
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import NoteTaken, ResultsCompacted
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID, Attempt
from hpcscientist.records.trial import Stage, TrialReport, TrialSpec, index_of
from hpcscientist.results import store
from hpcscientist.results.compact import compact
from hpcscientist.results.scan import JournalTrial, disagreement, loose_files, right_among


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """Restores the result files of a campaign, for one driver."""

    paths: RunPaths
    journal: Journal
    state: CampaignState
    specs: SpecFactory

    def restore(self) -> None:
        """Make the result files of all ended trials agree with the journal.

        Raises OSError and RunDirectoryError.
        """
        known = self._recorded(self.state.trials)
        found = disagreement(self.paths, known)
        for file in found.files:
            file.rename(file.with_name(f"changed-{file.name}"))
        if found.files:  # the other results in these files have to be written again too
            found = disagreement(self.paths, known)
        self._write(found.trials, known)

    def restore_loose(self, trials: Collection[str]) -> None:
        """Do the same for trials whose results are about to be compacted."""
        known = self._recorded(trials)
        right = right_among([self.paths.trial(trial_id).result for trial_id in trials], known)
        self._write(sorted(known.keys() - right), known)

    def _recorded(self, trials: Iterable[str]) -> dict[str, JournalTrial]:
        return {
            trial.trial_id: JournalTrial(
                trial.idea_id, trial.attempt, trial.stage, trial.seed, report
            )
            for trial in map(self.state.trials.__getitem__, trials)
            if not trial.infra_failed and (report := trial.report) is not None
        }

    def _write(self, trials: Sequence[str], known: Mapping[str, JournalTrial]) -> None:
        written = 0
        for trial_id in trials:
            written += self._write_one(self.state.trials[trial_id], known[trial_id].report)
        if written:
            text = (
                f"{written} results of ended trials were gone or changed, and were written again "
                f"as the journal has them, {trials[0]} first"
            )
            name = f"results restored/{self.state.generation}/{trials[0]}"
            self.journal.record(NoteTaken(name=name, text=text))

    def _write_one(self, trial: TrialState, report: TrialReport) -> bool:
        try:
            spec = self._spec(trial, report)
        except IdeaDamaged:  # the summary then says that the idea has no results
            return False
        place = self.paths.trial(trial.trial_id)
        folders.renew(make_way(self.paths, place.spec).parent)
        place.out.mkdir()
        folders.write_spec(place, spec, durable=False)
        store.write_result(place, spec, report)
        return True

    def _spec(self, trial: TrialState, report: TrialReport) -> TrialSpec:
        """Return a trial's spec, as far as its result records it. Raises IdeaDamaged."""
        index = index_of(trial.trial_id)
        spec = self._specified(trial, index)
        told = {"run": report.run, "seed": trial.seed, "queued_at": report.usage.started_at}
        return spec.model_copy(update=told)

    def _specified(self, trial: TrialState, index: int) -> TrialSpec:
        specs, stage = self.specs, trial.stage
        if trial.idea_id == BASELINE_ID:
            if stage is Stage.CONFIRM:
                return specs.confirm_baseline(index, trial.seed)
            return specs.reference(stage, index, trial.attempt)
        standing = self.state.ideas[trial.idea_id]
        idea = known_idea(self.paths.idea(trial.idea_id).idea, standing.idea_hash)
        attempt = Attempt(
            idea_id=trial.idea_id,
            number=trial.attempt,
            code_hash=standing.code_hashes.get(trial.attempt, ""),
            note="",
        )
        match stage:
            case Stage.PILOT:
                return specs.pilot(idea, attempt)
            case Stage.STEP:
                return specs.step(idea, attempt, index)
            case Stage.CONFIRM:
                return specs.confirm(idea, attempt, index, trial.seed)
            case _:
                return specs.full(idea, attempt, which=range(index, index + 1))[0]


# Compacts a campaign's results while it runs, so that inodes do not grow with trials.


@dataclass(frozen=True, slots=True)
class Compactor:
    """Compacts result files when `decide` asks for it.

    It compacts trials of ended ideas, because the next attempt of an open idea reads its logs, and
    reruns of the baseline, which are not read again.
    """

    paths: RunPaths
    journal: Journal
    state: CampaignState
    results: ResultFiles

    async def compact(self) -> None:
        """Compact what is ready, in a thread so that the loop goes on."""
        await self.journal.settled()  # else a result could be in no file and in no journal
        ready, settled = self._ready(), self.state.progress.settled
        assert len(ready) == settled, "what is compacted is what is counted to see when to"
        loose = {file.parent.name for file in loose_files(self.paths)}
        self.results.restore_loose(ready & loose)  # a changed one would be compacted for good
        moving = asyncio.create_task(asyncio.to_thread(compact, self.paths, ready))
        try:
            await asyncio.shield(moving)
        finally:  # a thread outlives its cancelled task: wait, so that none is left behind
            await asyncio.wait([moving])
        self.journal.record(ResultsCompacted(trials=settled))

    def _ready(self) -> set[str]:
        over = {idea for idea, state in self.state.ideas.items() if state.ended is not None}
        return {
            trial.trial_id
            for trial in self.state.trials.values()
            if (trial.idea_id in over or _is_rerun(trial))
            and trial.phase in ("scored", "failed")
            and not trial.infra_failed
        }


def _is_rerun(trial: TrialState) -> bool:
    return trial.idea_id == BASELINE_ID and trial.attempt > BASELINE_ATTEMPT
