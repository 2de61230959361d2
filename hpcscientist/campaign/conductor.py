"""The main loop: decide, start actions, wait, repeat, until the campaign ends or the driver stops.

    journal --fold--> state --decide--> actions --perform--> events --> journal

All decisions depend only on the state, which is computed from the journal. So recovery needs no
separate code path: a driver that resumes decides what is missing, and adopts what the scheduler
still runs.

If an endpoint does not answer, actions that ask it are held and trials continue. The loop retries
one held action now and then. The driver stops once nothing else is left to do.
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
_ASKED_AGAIN_S, _SELDOM_S = 30.0, 600.0  # pause before a retry: the first, doubled up to the last
_ERRORS: dict[str, type[HpcsciError]] = {
    "machine": MachineTrouble,
    "damaged": RunDirectoryError,
    "baseline": BaselineFailed,
    "noisy": BaselineNoisy,
}

# Modules that import slowly: importing one inside the loop would block it and leave slots idle. The
# bank compares texts with the first, statistics use the next two, and code checks use the last.
_SLOW = ("scipy.sparse", "scipy.special", "numpy.polynomial.legendre", "pyflakes.checker")


@dataclass(slots=True)
class Conductor:
    """Runs the loop of one campaign for one driver. `now` returns seconds since the epoch."""

    rules: Rules
    state: CampaignState
    journal: Journal
    performers: Performers
    now: Callable[[], float] = time.time

    async def run(self) -> None:
        """Run the campaign to its end.

        Raises BaselineFailed, MachineTrouble, EndpointError, DiskFull or RunDirectoryError;
        everything recorded by then is kept, and a new conductor continues from there.
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
        """Raise the endpoint's error once no work is left that can go on without the endpoint."""
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
        """Wait until an action is done, or until it is time to decide again."""
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
            # Of several errors, prefer one that people can fix.
            raise next((e for e in errors if isinstance(e, HpcsciError)), errors[0])


def _acts(action: Action) -> bool:
    """Return whether the journal must be flushed to disk before this action.

    It must if the action asks a model or a library, or ends this driver. All other actions record
    more, or wait for the disk themselves (`Journal.settled`).
    """
    match action:
        case Take(_, step):
            return isinstance(step, Write | Review | Read)
        case _:
            return isinstance(action, Propose | Brief | Stop | Finish)


@dataclass(slots=True)
class _Held:
    """The keys of actions held for an endpoint, and when to retry one of them."""

    error: EndpointError | None = None  # the last error; None if nothing is held
    again_at: float | None = None
    _keys: dict[str, None] = field(default_factory=dict)
    _tried: str = ""
    _pause_s: float = 0.0

    def waiting(self, under_way: Collection[str], now: float) -> set[str]:
        """Return the keys that stay held; once a retry is due, all but one."""
        if self._tried and self._tried not in under_way:  # it is no longer wanted
            self._tried = ""
            self.error, self.again_at = (self.error, now) if self._keys else (None, None)
        if self._keys and self.again_at is not None and now >= self.again_at:
            self._tried, self.again_at = next(iter(self._keys)), None
            del self._keys[self._tried]
        return set(self._keys)

    def hold(self, key: str, error: EndpointError, now: float) -> None:
        """Hold an action that failed because the endpoint did not answer."""
        self._keys[key] = None
        self.error = error
        if key == self._tried:
            self._tried, self._pause_s = "", min(2 * self._pause_s, _SELDOM_S)
            self.again_at = now + self._pause_s
        elif not self._tried and self.again_at is None:
            self._pause_s = _ASKED_AGAIN_S
            self.again_at = now + self._pause_s

    def ended_well(self, key: str) -> None:
        """Release all held actions if this is the one that was retried."""
        if key == self._tried:
            self._keys.clear()
            self._tried, self.error, self.again_at = "", None, None


class _Stale:
    """An event that is set a while after a journal record that needs no new decision.

    An example is a trial that left the queue.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.event = asyncio.Event()
        self._loop = loop
        self._timers: list[asyncio.TimerHandle] = []

    def soon(self) -> None:
        """Set the event in a while. Callable from any thread."""
        self._loop.call_soon_threadsafe(self._arm)

    def _arm(self) -> None:
        self._timers.append(self._loop.call_later(_FLUSH_S, self.event.set))

    def clear(self) -> None:
        """Clear the event and its timers, after the journal was flushed."""
        self.event.clear()
        while self._timers:
            self._timers.pop().cancel()


async def _end(under_way: dict[asyncio.Task[None], str]) -> None:
    """Cancel all tasks and wait for them to end."""
    for task in under_way:
        task.cancel()
    if under_way:
        await asyncio.wait(under_way)
    for task in under_way:
        if not task.cancelled():
            task.exception()  # the first error is the one that counts


def warm_up() -> None:
    """Import the slow modules before the loop begins. Raises ImportError.

    In a thread beside the loop they would delay the first ideas for longer than this takes.
    """
    for name in _SLOW:
        import_module(name)
