"""The port to whatever runs trials."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from hpcscientist.records.trial import TrialReport, TrialSpec

OnTrial = Callable[[TrialSpec], None]

# With the backend's own report of a trial that left no result file, where it knows why.
OnEnd = Callable[[TrialSpec, TrialReport | None], None]


class Backend(Protocol):
    """Runs trials whose folders are prepared (`spec.json` written, `out/` empty).

    Obligations: `run` returns once each of the trials has ended, be it with a result file
    or without one (then the worker was lost). A worker that already runs one of the trials
    (left by a driver that was killed) is waited for, not doubled. It calls `on_start` when a
    trial leaves the queue (queue time is not run time) and `on_end` as soon as it has ended,
    not when the last of them has; what these raise stops the trials and is passed on. `run`
    may be called many times concurrently from one event loop; earlier calls go first. When
    `run` is cancelled, its trials are stopped before the cancellation is passed on.
    """

    @property
    def outlives_driver(self) -> bool:
        """Whether what was let go goes on without its driver."""
        ...

    @property
    def slots(self) -> int:
        """How many trials run at once."""
        ...

    async def run(self, trials: Sequence[TrialSpec], on_start: OnTrial, on_end: OnEnd) -> None:
        """Run trials to their end."""
        ...

    def avoid(self, nodes: Collection[str]) -> None:
        """Name the nodes that failed repeatedly; where others can be had, those are used."""
        ...

    def let_go(self) -> None:
        """From now on leave to the scheduler what it has: a later driver adopts it.

        Cancelled runs are not stopped then, and `close` stops nothing. Without a scheduler
        that outlives the driver this has no effect.
        """
        ...

    async def close(self) -> None:
        """Stop whatever still runs and leave nothing behind. Idempotent."""
        ...
