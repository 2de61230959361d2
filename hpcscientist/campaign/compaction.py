"""Compacting a campaign's results while it runs, so that inodes do not grow with trials."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hpcscientist.campaign.result_files import ResultFiles
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.entities import TrialState
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import ResultsCompacted
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.results.compact import compact
from hpcscientist.results.scan import loose_files


@dataclass(frozen=True, slots=True)
class Compactor:
    """Compacts when it is wanted.

    Only trials of ideas that have ended, for the next attempt of the others reads their logs; and
    reruns of the baseline, which nobody reads.
    """

    paths: RunPaths
    journal: Journal
    state: CampaignState
    results: ResultFiles

    async def compact(self) -> None:
        """Compact what may be; in a thread, so that the loop goes on."""
        await self.journal.settled()  # else a result might be in no file and in no journal
        ready, settled = self._ready(), self.state.progress.settled
        assert len(ready) == settled, "what is compacted is what is counted to see when to"
        loose = {file.parent.name for file in loose_files(self.paths)}
        self.results.restore_loose(ready & loose)  # a changed one would be compacted for good
        moving = asyncio.create_task(asyncio.to_thread(compact, self.paths, ready))
        try:
            await asyncio.shield(moving)
        finally:  # a thread goes on when its task is cancelled: no driver leaves one behind
            await asyncio.wait([moving])
        self.journal.record(ResultsCompacted(trials=settled))

    def _ready(self) -> set[str]:
        over = {idea for idea, state in self.state.ideas.items() if state.ended is not None}
        return {
            trial.trial_id
            for trial in self.state.trials.values()
            if (trial.idea_id in over or _is_rerun(trial))
            and trial.phase in ("scored", "failed")
            and not trial.spoilt
        }


def _is_rerun(trial: TrialState) -> bool:
    return trial.idea_id == BASELINE_ID and trial.attempt > BASELINE_ATTEMPT
