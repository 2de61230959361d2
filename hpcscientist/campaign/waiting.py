"""Who waits for trials: what they may rely on, and what each is told."""

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
    """Runs prepared trials to their end, for `TrialRunner`; `Dispatcher` does."""

    @property
    def outlives_driver(self) -> bool:
        """Whether what was let go goes on without its driver."""
        ...

    async def run(self, trials: Sequence[TrialSpec], on_start: OnStart, on_end: OnEnd) -> None:
        """Run trials to their end, telling each start and each end as it comes.

        What `on_start` and `on_end` raise stops the trials and is passed on. When it is
        cancelled, its trials are stopped before the cancellation is passed on.
        """
        ...

    def avoid(self, nodes: Collection[str]) -> None:
        """Name the nodes that failed repeatedly; where others can be had, those are used."""
        ...

    def let_go(self) -> None:
        """From now on leave to a scheduler what it has: a later driver adopts it."""
        ...

    async def close(self) -> None:
        """Stop whatever still runs, unless it was let go, and leave nothing behind. Idempotent."""
        ...


@dataclass(eq=False, slots=True)
class Entry:
    """One run that a caller waits for. `gone` is set once nothing of it can go on."""

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
        """The run that is waited for."""
        return run_of(self.spec)

    def start(self) -> None:
        """Tell the caller, once."""
        if self.begun or self.stopping or self.done.done():
            return
        self.begun = True
        try:
            self.on_start(self.spec)
        except Exception as error:  # noqa: BLE001 (the caller's own, passed back to it)
            self.fail(error)

    def end(self, ended: Ended) -> None:
        """Tell the caller how it ended, and let it go on."""
        if not self.stopping and not self.done.done():
            try:
                self.on_end(self.spec, ended)
            except Exception as error:  # noqa: BLE001 (the caller's own, passed back to it)
                self.fail(error)
            else:
                self.done.set_result(None)
        self.gone.set()

    def fail(self, error: BaseException) -> None:
        """Pass an error on to the caller, who may be ending for that of another trial by now."""
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # or asyncio prints a traceback where nobody asks for it

    def give_up(self) -> None:
        """Nothing of it can go on, and nobody wants to know how it ended."""
        self.gone.set()
        self.done.cancel()


def turn(entry: Entry) -> tuple[bool, float]:
    """Return by what entries are sorted as they wait: first come first served, but pilots and the
    reference's trials before all else. A pilot is short, and until it has ended nobody knows what
    its idea wants next: where those waited last, the last ideas would run alone. For the reference
    all ideas wait.
    """
    first = entry.spec.stage is Stage.PILOT or entry.spec.idea_id == BASELINE_ID
    return not first, entry.since
