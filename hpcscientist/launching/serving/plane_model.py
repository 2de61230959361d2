"""A model that the plane beside the driver serves: its trouble may be the plane's end.

When a plane ends, requests fail before its processes are known to have ended. An endpoint's
trouble fails a campaign; a plane's end is a machine's, and the next job goes on with a new one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hpcscientist.errors import EndpointError, PlaneLost
from hpcscientist.models.serving.plane import END_S
from hpcscientist.ports.model import Model
from hpcscientist.records.asked.model import ModelReply, ModelRequest

_POLL_S = 0.3
# Time for the driver to see the plane's end itself: it then lets go of what Slurm has, which a
# failing request would have cancelled.
_HEARD_S = 5.0


class PlaneModel:
    """Asks a model; upon an endpoint's trouble it waits for what becomes of the plane.

    `lost` says why the plane is gone, "" while it is not; `patience_s` is how long that may
    take to be known. A plane that still stands then is asked once more.
    """

    def __init__(self, inner: Model, lost: Callable[[], str], patience_s: float = END_S) -> None:
        self._inner, self._lost, self._patience_s = inner, lost, patience_s

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self._inner.name

    async def probe(self) -> None:
        """Ask the inner model whether it can be asked. Raises EndpointError."""
        await self._inner.probe()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request. Raises PlaneLost, and what the inner model raises."""
        try:
            return await self._inner.complete(request)
        except EndpointError as error:
            await self._heed(error)
        try:
            return await self._inner.complete(request)
        except EndpointError as error:
            if self._lost():
                await self._heed(error)
            raise

    async def close(self) -> None:
        """Close the inner model. Idempotent."""
        await self._inner.close()

    async def _heed(self, error: EndpointError) -> None:
        """Return once the plane has had time to end and stands. Raises PlaneLost."""
        until = time.monotonic() + self._patience_s
        while not self._lost():
            if time.monotonic() > until:
                return
            await asyncio.sleep(_POLL_S)
        await asyncio.sleep(_HEARD_S)
        raise PlaneLost(self._lost()) from error
