"""Which batches drivers meant to submit and have not seen the end of. Pure, as the fold is."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpcscientist.records.events import BatchQueued
from hpcscientist.records.runs import Intent, RunId


@dataclass(slots=True)
class Intents:
    """The batches with runs that have not ended; each run is in the one it was queued in last."""

    _batches: dict[str, Intent] = field(default_factory=dict)
    _left: dict[str, int] = field(default_factory=dict)  # by batch: runs that have not ended
    _of: dict[RunId, str] = field(default_factory=dict)

    def queued(self, event: BatchQueued) -> None:
        """Take note of a batch. What is queued again was not queued before, or was lost unbegun."""
        self._batches[event.batch_id] = Intent(event.batch_id, event.elements)
        for run in (run for element in event.elements for run in element):
            self._leave(run)
            self._of[run] = event.batch_id
            self._left[event.batch_id] = self._left.get(event.batch_id, 0) + 1

    def ended(self, trial_id: str, run: int) -> None:
        """Take note of a run's end."""
        self._leave(RunId(trial_id=trial_id, run=run))

    def open(self) -> list[Intent]:
        """Return them, the earliest first."""
        return list(self._batches.values())

    def _leave(self, run: RunId) -> None:
        batch_id = self._of.pop(run, None)
        if batch_id is not None:
            self._left[batch_id] -= 1
            if not self._left[batch_id]:
                del self._batches[batch_id], self._left[batch_id]
