"""What a backend has to tell: kept until somebody takes it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hpcscientist.records.trial import Change


class ChangeQueue:
    """Changes in the order of their happening; see `changes` in `ports`."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._error: BaseException | None = None
        self._some = asyncio.Event()

    def tell(self, change: Change) -> None:
        """Add one."""
        self._changes.append(change)
        self._some.set()

    def fail(self, error: BaseException) -> None:
        """Have the next call raise, once everything before was taken."""
        self._error = self._error or error
        self._some.set()

    async def take(self) -> Sequence[Change]:
        """Wait until there is something, and take it all. Raises what `fail` was given."""
        await self._some.wait()
        if not self._changes and self._error is not None:
            raise self._error
        taken, self._changes = self._changes, []
        if self._error is None:
            self._some.clear()
        return taken
