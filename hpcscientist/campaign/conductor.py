"""The loop: decide, begin, wait, and again, until the campaign ends or this driver stops.

    journal --fold--> state --decide--> actions --perform--> events --> journal

All that is decided by is in the journal's fold, so recovery is no second way through the code: a
driver that resumes decides what is lacking, and what is under way in a scheduler it adopts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from hpcscientist.campaign.conduct.actions import Finish, Stop
from hpcscientist.campaign.conduct.decide import decide
from hpcscientist.campaign.conduct.rules import Rules
from hpcscientist.campaign.conduct.trials import Memory
from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.performers import Performers
from hpcscientist.campaign.state import CampaignState
from hpcscientist.errors import (
    BaselineFailed,
    BaselineNoisy,
    HpcsciError,
    MachineTrouble,
    RunDirectoryError,
)

_FLUSH_S = 0.5
_ERRORS: dict[str, type[HpcsciError]] = {
    "machine": MachineTrouble,
    "damaged": RunDirectoryError,
    "baseline": BaselineFailed,
    "noisy": BaselineNoisy,
}


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
        self.performers.catch_up()
        memory = Memory()
        under_way: dict[asyncio.Task[None], str] = {}
        try:
            while True:
                self.journal.flush()
                stale.clear()
                busy = set(under_way.values())
                found = decide(self.state, self.rules, busy, self.now(), memory)
                for action in found.actions:
                    if isinstance(action, Stop | Finish):
                        self.performers.catch_up()
                        self.performers.claims.write_all()
                        if isinstance(action, Stop):
                            raise _ERRORS[action.kind](action.why)
                        return
                    task = asyncio.create_task(self.performers.perform(action), name=action.key)
                    under_way[task] = action.key
                await self._wait(under_way, stale, found.wake_at)
        finally:
            await _end(under_way)

    async def _wait(
        self, under_way: dict[asyncio.Task[None], str], stale: _Stale, wake_at: float | None
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
        ended = [task for task in under_way if task in done]
        for task in ended:
            del under_way[task]
        errors = [error for task in ended if (error := task.exception()) is not None]
        if errors:
            # Of several what people can mend.
            raise next((e for e in errors if isinstance(e, HpcsciError)), errors[0])


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
