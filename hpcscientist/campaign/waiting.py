"""Callers that wait for trials: the protocol `Runs` they rely on, and how they are notified."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import Ended, RunId, Stage, TrialSpec, run_of

OnStart = Callable[[TrialSpec], None]
OnEnd = Callable[[TrialSpec, Ended | None], None]


class Runs(Protocol):
    """Runs prepared trials to their end, for `TrialRunner`; implemented by `Dispatcher`."""

    @property
    def outlives_driver(self) -> bool:
        """Return whether trials that were let go continue without the driver."""
        ...

    async def run(self, trials: Sequence[TrialSpec], on_start: OnStart, on_end: OnEnd) -> None:
        """Run trials to their end, and report each start and end as it happens.

        An error of `on_start` or `on_end` stops the trials and is raised. When this call is
        cancelled, its trials are stopped before the cancellation is passed on.
        """
        ...

    def avoid(self, nodes: Collection[str]) -> None:
        """Avoid these nodes, which failed repeatedly, if other nodes are available."""
        ...

    def let_go(self) -> None:
        """From now on leave submitted trials to the scheduler: a later driver adopts them."""
        ...

    async def close(self) -> None:
        """Stop and clean up everything that was not let go. Idempotent."""
        ...


@dataclass(eq=False, slots=True)
class WaitedRun:
    """One run that a caller waits for. `gone` is set once nothing of the run can continue."""

    spec: TrialSpec
    on_start: OnStart
    on_end: OnEnd
    done: asyncio.Future[None]
    since: float
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    begun: bool = False
    stopping: bool = False

    @property
    def run(self) -> RunId:
        """The run that the caller waits for."""
        return run_of(self.spec)

    def start(self) -> None:
        """Notify the caller of the start, once."""
        if self.begun or self.stopping or self.done.done():
            return
        self.begun = True
        try:
            self.on_start(self.spec)
        except Exception as error:  # noqa: BLE001 (the caller's own, passed back to it)
            self.fail(error)

    def end(self, ended: Ended) -> None:
        """Notify the caller of the end, and resolve its wait."""
        if not self.stopping and not self.done.done():
            try:
                self.on_end(self.spec, ended)
            except Exception as error:  # noqa: BLE001 (the caller's own, passed back to it)
                self.fail(error)
            else:
                self.done.set_result(None)
        self.gone.set()

    def fail(self, error: BaseException) -> None:
        """Pass an error to the caller, unless its wait is already over."""
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # else asyncio prints a traceback if the caller never asks

    def give_up(self) -> None:
        """Mark the run finished and discard its outcome."""
        self.gone.set()
        self.done.cancel()


def turn(entry: WaitedRun) -> tuple[bool, float]:
    """Return the sort key of waiting entries: pilots and baseline trials first, then by time.

    A pilot is short, and its idea cannot continue before it ends: if pilots waited last, the last
    ideas would run alone. All ideas wait for the baseline.
    """
    first = entry.spec.stage is Stage.PILOT or entry.spec.idea_id == BASELINE_ID
    return not first, entry.since
