"""A counted set of slots, given out first come first served."""

from __future__ import annotations

import asyncio
from collections import deque


class Slots:
    """Slots of one event loop. `take_now` may overdraw them; then nobody else starts."""

    def __init__(self, total: int) -> None:
        self.total, self._used = total, 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for a slot; earlier calls go first."""
        if self._used < self.total and not self._waiting:
            self._used += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()  # it was our turn just now
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def take_now(self) -> None:
        """Take a slot for what runs already."""
        self._used += 1

    def give_back(self) -> None:
        """Return a slot to whoever waits longest."""
        self._used -= 1
        while self._waiting and self._used < self.total:
            turn = self._waiting.popleft()
            if not turn.done():  # done: cancelled, and its task has not run since
                self._used += 1
                turn.set_result(None)
