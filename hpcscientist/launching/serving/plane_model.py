"""A model that the plane beside the driver serves: its trouble may be the plane's end.

When a plane ends, requests fail before its processes are known to have ended. An endpoint's
trouble fails a campaign; a plane's end is a machine's, and the next job goes on with a new one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from hpcscientist.errors import EndpointError, PlaneLost, ServingError
from hpcscientist.models.serving.plane import END_S
from hpcscientist.ports.model import Model
from hpcscientist.records.asked.model import ModelReply, ModelRequest

_POLL_S = 0.3
# Time for the driver to see the plane's end itself: it then lets go of what Slurm has, which a
# failing request would have cancelled.
_HEARD_S = 5.0


class PlaneModel:
    """Asks a model; upon an endpoint's trouble it waits for what becomes of the plane.

    `opened` returns the model once it answers, and is asked at the first request. `lost` says why
    the plane is gone, "" while it is not; `patience_s` is how long that may take to be known. A
    plane that still stands then is asked once more. `at_once` is how many requests the model
    answers at once.
    """

    def __init__(
        self,
        name: str,
        opened: Callable[[], Awaitable[Model]],
        lost: Callable[[], str],
        patience_s: float = END_S,
        at_once: int = 0,
    ) -> None:
        self._name, self._opened = name, opened
        self._lost, self._patience_s = lost, patience_s
        self._opening = asyncio.Lock()
        self._inner: Model | None = None
        self._at_once, self._in_flight = at_once, 0

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    async def probe(self) -> None:
        """Ask the inner model whether it can be asked. Raises EndpointError, PlaneLost."""
        await (await self._model()).probe()

    @property
    def idle(self) -> int:
        """How many requests more it would answer at once."""
        return max(0, self._at_once - self._in_flight)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request. Raises PlaneLost, and what the inner model raises."""
        self._in_flight += 1
        try:
            return await self._complete(request)
        finally:
            self._in_flight -= 1

    async def _complete(self, request: ModelRequest) -> ModelReply:
        inner = await self._model()
        try:
            return await inner.complete(request)
        except EndpointError as error:
            await self._heed(error)
        try:
            return await inner.complete(request)
        except EndpointError as error:
            if self._lost():
                await self._heed(error)
            raise

    async def close(self) -> None:
        """Close the inner model. Idempotent."""
        if self._inner is not None:
            await self._inner.close()

    async def _model(self) -> Model:
        """Return the model, once it answers. Raises PlaneLost where it never will."""
        async with self._opening:
            if self._inner is None:
                try:
                    self._inner = await self._opened()
                except ServingError as error:
                    await asyncio.sleep(_HEARD_S)
                    raise PlaneLost(str(error)) from error
            return self._inner

    async def _heed(self, error: EndpointError) -> None:
        """Return once the plane has had time to end and stands. Raises PlaneLost."""
        until = time.monotonic() + self._patience_s
        while not self._lost():
            if time.monotonic() > until:
                return
            await asyncio.sleep(_POLL_S)
        await asyncio.sleep(_HEARD_S)
        raise PlaneLost(self._lost()) from error
