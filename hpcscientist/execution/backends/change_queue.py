"""A queue of the changes that a backend reports, kept until the driver takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hpcscientist.records.trial import Change


class ChangeQueue:
    """Changes in chronological order; see `changes` in `ports`."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._error: BaseException | None = None
        self._some = asyncio.Event()

    def tell(self, change: Change) -> None:
        """Add a change."""
        self._changes.append(change)
        self._some.set()

    def fail(self, error: BaseException) -> None:
        """Make `take` raise `error`, once everything before was taken."""
        self._error = self._error or error
        self._some.set()

    async def take(self) -> Sequence[Change]:
        """Wait until there are changes, and take all. Raises the error that `fail` was given."""
        await self._some.wait()
        if not self._changes and self._error is not None:
            raise self._error
        taken, self._changes = self._changes, []
        if self._error is None:
            self._some.clear()
        return taken
