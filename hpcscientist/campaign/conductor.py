"""The loop: decide, begin, wait, and again, until the campaign ends or this driver stops.

    journal --fold--> state --decide--> actions --perform--> events --> journal

All that is decided by is in the journal's fold, so recovery is no second way through the code: a
driver that resumes decides what is lacking, and what is under way in a scheduler it adopts.

An endpoint that does not answer ends nothing that can do without it: what asks it is held, trials
go on, and of what is held one is tried again now and then. The driver stops once nothing else is
left to do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from importlib import import_module

from hpcscientist.campaign.performers import Performers
from hpcscientist.conduct.actions import (
    Action,
    Brief,
    Finish,
    Propose,
    Stop,
    Take,
)
from hpcscientist.conduct.agenda import AgendaCache
from hpcscientist.conduct.decide import decide
from hpcscientist.conduct.rules import Rules
from hpcscientist.conduct.strategy.steps import Read, Review, Write
from hpcscientist.errors import (
    BaselineFailed,
    BaselineNoisy,
    EndpointError,
    HpcsciError,
    MachineTrouble,
    RunDirectoryError,
)
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import NoteTaken

_FLUSH_S = 0.5
_ASKED_AGAIN_S, _SELDOM_S = 30.0, 600.0  # an endpoint that did not answer; twice as long each time
_ERRORS: dict[str, type[HpcsciError]] = {
    "machine": MachineTrouble,
    "damaged": RunDirectoryError,
    "baseline": BaselineFailed,
    "noisy": BaselineNoisy,
}

# What is slow to import: the loop would stand still for it when it is needed, and with it every
# slot that is free then. The bank compares texts by the first, statistics reckon with the next two,
# and code is checked by the last.
_SLOW = ("scipy.sparse", "scipy.special", "numpy.polynomial.legendre", "pyflakes.checker")


@dataclass(slots=True)
class Conductor:
    """Conducts one campaign for one driver. `now`: seconds since the epoch."""

    rules: Rules
    state: CampaignState
    journal: Journal
    performers: Performers
    now: Callable[[], float] = time.time

    async def run(self) -> None:
        """Run the campaign to its end.

        Raises BaselineFailed, MachineTrouble, EndpointError, DiskFull or RunDirectoryError;
        whatever was recorded by then is kept, and a new conductor goes on from there.
        """
        stale = _Stale(asyncio.get_running_loop())
        with self.journal.grouped(stale.soon):
            await self._run(stale)

    async def _run(self, stale: _Stale) -> None:
        self.performers.begin()
        memory, held = AgendaCache(), _Held()
        under_way: dict[asyncio.Task[None], str] = {}
        try:
            while True:
                begun = under_way.values()
                busy = {*begun, *held.waiting(begun, self.now())}
                found = decide(self.state, self.rules, busy, self.now(), memory)
                if stale.event.is_set() or any(map(_acts, found.actions)):
                    self.journal.flush()
                    stale.clear()
                for action in found.actions:
                    if isinstance(action, Stop | Finish):
                        self.performers.end()
                        if isinstance(action, Stop):
                            raise _ERRORS[action.kind](action.why)
                        return
                    task = asyncio.create_task(self.performers.perform(action), name=action.key)
                    under_way[task] = action.key
                if held.error is not None:
                    self._go_on_without(held.error, under_way, found.wake_at)
                wake_at = min(filter(None, (found.wake_at, held.again_at)), default=None)
                await self._wait(under_way, held, stale, wake_at)
        finally:
            await _end(under_way)

    def _go_on_without(
        self, error: EndpointError, under_way: dict[asyncio.Task[None], str], wake_at: float | None
    ) -> None:
        """Raise the error of an endpoint once nothing goes on that can do without it."""
        if not under_way and wake_at is None:
            raise error
        if any(key.startswith("run/") for key in under_way.values()):
            text = f"{error}; trials go on meanwhile, and it is asked again"
            self.journal.record(NoteTaken(name="endpoint", text=text))

    async def _wait(
        self,
        under_way: dict[asyncio.Task[None], str],
        held: _Held,
        stale: _Stale,
        wake_at: float | None,
    ) -> None:
        """Wait until something has been done, or until it is time to look again."""
        pause_s = None if wake_at is None else max(0.0, wake_at - self.now())
        flush = asyncio.create_task(stale.event.wait())
        try:
            done, _ = await asyncio.wait(
                {*under_way, flush}, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            flush.cancel()
        errors = []
        for task in [task for task in under_way if task in done]:
            key, error = under_way.pop(task), task.exception()
            if isinstance(error, EndpointError):
                held.hold(key, error, self.now())
            elif error is not None:
                errors.append(error)
            else:
                held.ended_well(key)
        if errors:
            # Of several what people can mend.
            raise next((e for e in errors if isinstance(e, HpcsciError)), errors[0])


def _acts(action: Action) -> bool:
    """Whether what was recorded must be on the disk before this: it asks a model or a library, or
    ends this driver. All else records more, or waits for the disk itself (`Journal.settled`).
    """
    match action:
        case Take(_, step):
            return isinstance(step, Write | Review | Read)
        case _:
            return isinstance(action, Propose | Brief | Stop | Finish)


@dataclass(slots=True)
class _Held:
    """What waits for an endpoint: keys of actions, and when one of them is tried again."""

    error: EndpointError | None = None  # the last; None where nothing is held
    again_at: float | None = None
    _keys: dict[str, None] = field(default_factory=dict)
    _tried: str = ""
    _pause_s: float = 0.0

    def waiting(self, under_way: Collection[str], now: float) -> set[str]:
        """Return what is not begun now: once it is time, all but one."""
        if self._tried and self._tried not in under_way:  # it was not wanted any more
            self._tried = ""
            self.error, self.again_at = (self.error, now) if self._keys else (None, None)
        if self._keys and self.again_at is not None and now >= self.again_at:
            self._tried, self.again_at = next(iter(self._keys)), None
            del self._keys[self._tried]
        return set(self._keys)

    def hold(self, key: str, error: EndpointError, now: float) -> None:
        """Hold what failed for want of an answer."""
        self._keys[key] = None
        self.error = error
        if key == self._tried:
            self._tried, self._pause_s = "", min(2 * self._pause_s, _SELDOM_S)
            self.again_at = now + self._pause_s
        elif not self._tried and self.again_at is None:
            self._pause_s = _ASKED_AGAIN_S
            self.again_at = now + self._pause_s

    def ended_well(self, key: str) -> None:
        """Hold nothing any more, if this is what was tried again."""
        if key == self._tried:
            self._keys.clear()
            self._tried, self.error, self.again_at = "", None, None


class _Stale:
    """Set some time after something was recorded that is nobody's cause to decide anew, as that a
    trial left the queue.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.event = asyncio.Event()
        self._loop = loop
        self._timers: list[asyncio.TimerHandle] = []

    def soon(self) -> None:
        """Have it set in a while; from any thread."""
        self._loop.call_soon_threadsafe(self._arm)

    def _arm(self) -> None:
        self._timers.append(self._loop.call_later(_FLUSH_S, self.event.set))

    def clear(self) -> None:
        """All that was recorded is known."""
        self.event.clear()
        while self._timers:
            self._timers.pop().cancel()


async def _end(under_way: dict[asyncio.Task[None], str]) -> None:
    """End what is under way, each in its own manner, and wait for it."""
    for task in under_way:
        task.cancel()
    if under_way:
        await asyncio.wait(under_way)
    for task in under_way:
        if not task.cancelled():
            task.exception()  # the first error is the one that counts


def warm_up() -> None:
    """Import what is slow to import, before the loop begins: beside it, in a thread, it would hold
    up the first ideas for longer than it takes. Raises ImportError.
    """
    for name in _SLOW:
        import_module(name)
