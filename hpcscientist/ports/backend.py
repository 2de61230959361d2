"""The port to wherever trials run: a scheduler, or this machine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from hpcscientist.records.runs import Answer, Batch, Capacity, Change, Intent, RunId
from hpcscientist.records.trial import TrialSpec


class Backend(Protocol):
    """Takes batches of trials whose folders are prepared, and tells what becomes of each run.

    Obligations:

    - `adopt` is called once, before all else. A worker or a job that an earlier driver left is
      followed and never doubled; what is found without an intent too. A query that fails answers
      nothing: what may have been queued counts as queued until it is known.
    - A batch is queued whole or not at all. It is not larger than the `capacity` that was told
      for its trials; what they ask for is equal.
    - Each run that was accepted, unknown or adopted is told one `Ended`, and one `Started` before
      it if it was under way while we looked. It is told as soon as it is known and not when its
      batch has ended; queue time is not run time. An end with a valid result is `ENDED`, however
      its job ended; any other is told once the scheduler's word is final and no file system hides
      a result any more. What the scheduler itself will run again has not ended.
    - Of the trials of an element, the one that was under way when the element was lost ends as
      that says, and those after it as `NOT_RUN`.
    - `changes` waits for something to tell. What was not taken when it is cancelled is told by the
      next call.
    - `cancel` returns once nothing of the runs can go on, or after its patience; each has its
      `Ended`. Runs that shared an element with one of them and had not ended are `NOT_RUN`.
    - It never judges: see `execution.trial_outcome`.

    Of what a scheduler knows, three things are no changes of their own. A run that it queues again
    has not ended, and is under way once more or not, which changes nothing for who waits. What
    accounting adds comes with `Ended` where it decides how a run ended; what a trial used is
    measured by its worker and stands in its result. And nothing is opened: a backend is made
    without asking anybody, and `adopt` is the first that may fail.

    All of it is called from one event loop. Raised by any call: SchedulerRefused for what no
    waiting mends, RunDirectoryError where workers do not see that folder, SiteError for a profile
    that nothing can be submitted with, DiskFull, OSError; then nothing more is told.
    """

    @property
    def outlives_driver(self) -> bool:
        """Whether what was queued goes on without its driver."""
        ...

    @property
    def gather_s(self) -> float:
        """How long trials are best gathered before they are submitted. Seconds."""
        ...

    async def adopt(self, intents: Sequence[Intent]) -> Collection[RunId]:
        """Take over what earlier drivers left; return the runs that are followed from now on."""
        ...

    async def capacity(self, like: TrialSpec) -> Capacity:
        """Say what may be submitted now, of trials like this one."""
        ...

    async def submit(self, batch: Batch) -> Answer:
        """Queue a batch."""
        ...

    async def changes(self) -> Sequence[Change]:
        """Wait until there is something to tell, and return it in the order of its happening."""
        ...

    async def cancel(self, runs: Collection[RunId]) -> None:
        """End runs, whether they wait or are under way."""
        ...

    async def sweep(self) -> None:
        """End whatever of the campaign is left, followed or not, and remove what it left behind.

        Raises SchedulerSilent where nobody answers: then what is left stays to be found.
        """
        ...

    async def close(self) -> None:
        """Follow nothing any more; end nothing. Idempotent."""
        ...
