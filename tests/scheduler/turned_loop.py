"""An event loop whose clock is in hand: it jumps to whatever is due next, and nobody waits.

While a command runs in a thread the clock stands still, so it makes no difference how long the
machine takes for it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any


class _Selector(selectors.DefaultSelector):
    """Instead of waiting it turns the clock, unless a thread works for the loop."""

    turned_s = 0.0
    working = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        if self.working:
            return super().select(None)
        if timeout is None:
            raise AssertionError("everybody waits, and nothing will ever happen")
        self.turned_s += timeout
        return []


class TurnedLoop(asyncio.SelectorEventLoop):
    """See above. Made by `asyncio.Runner(loop_factory=TurnedLoop)`."""

    def __init__(self) -> None:
        self._turned = _Selector()
        super().__init__(self._turned)

    def time(self) -> float:
        """Seconds, all of them skipped."""
        return self._turned.turned_s

    def run_in_executor(
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run in a thread; until its end the clock stands still."""
        self._turned.working += 1
        future = super().run_in_executor(executor, func, *args)

        def ended(done: asyncio.Future[Any]) -> None:
            self._turned.working -= 1

        future.add_done_callback(ended)
        return future

    async def shutdown_default_executor(self, *arguments: Any) -> None:
        """Wait for what threads still do."""
        self._turned.working += 1
        await super().shutdown_default_executor(*arguments)
        self._turned.working -= 1
