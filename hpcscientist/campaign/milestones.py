"""Numbered milestones that coroutines reach and wait for, such as "idea 7 has ended"."""

from __future__ import annotations

import asyncio
from collections import defaultdict


class Milestones:
    """Milestones of one event loop; each exists from the moment it is first named."""

    def __init__(self) -> None:
        self._reached: set[int] = set()
        self._awaited: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)

    def reach(self, number: int) -> None:
        """Let everybody go on who waits for a milestone, now or later."""
        self._reached.add(number)
        if number in self._awaited:
            self._awaited.pop(number).set()

    async def wait(self, number: int) -> None:
        """Wait until a milestone is reached."""
        if number not in self._reached:
            await self._awaited[number].wait()
