"""Compacting a campaign's results while it runs, so that inodes do not grow with trials."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.specs import BASELINE_ATTEMPT
from hpcscientist.campaign.standing import TrialState
from hpcscientist.campaign.state import CampaignState
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.events import ResultsCompacted
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.results.compact import compact


@dataclass(slots=True)
class Compactor:
    """Compacts once `every` trials have ended since the last time.

    Only trials of ideas that have ended, for the next attempt of the others reads their logs; and
    reruns of the baseline, which nobody reads.
    """

    paths: RunPaths
    journal: Journal
    state: CampaignState
    every: int
    _busy: bool = False

    async def step(self) -> None:
        """Compact if it is due; in a thread, so that the loop goes on."""
        done = self.state.compacted
        if self._busy or len(self.state.trials) - done < self.every:
            return
        ready = self._ready()
        if len(ready) - done < self.every:
            return
        self._busy = True
        try:
            await asyncio.to_thread(compact, self.paths, ready)
            self.journal.record(ResultsCompacted(trials=len(ready)))
        finally:
            self._busy = False

    def finish(self) -> None:
        """Compact what is left at the end of a campaign in which it was ever due."""
        if self.state.compacted:
            ready = self._ready()
            compact(self.paths, ready)
            self.journal.record(ResultsCompacted(trials=len(ready)))

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
