"""Numbered milestones that coroutines reach and wait for, such as "idea 7 has ended"."""

from __future__ import annotations

import asyncio
from collections import defaultdict


class Milestones:
    """Milestones of one event loop; each exists from the moment it is first named."""

    def __init__(self) -> None:
        self._events: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)

    def reach(self, number: int) -> None:
        """Let everybody go on who waits for a milestone, now or later."""
        self._events[number].set()

    async def wait(self, number: int) -> None:
        """Wait until a milestone is reached."""
        await self._events[number].wait()
