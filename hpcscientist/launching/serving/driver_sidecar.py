"""The model servers of a campaign, which run beside its driver and end with it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hpcscientist.config.settings import Settings
from hpcscientist.errors import EndpointError, PlaneLost, ServingError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.launching.serving import colocated_trials, nodes
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving.sharing import Engines
from hpcscientist.models.open import Served
from hpcscientist.models.serving.fitting import drafting
from hpcscientist.models.serving.fitting.layout import Machine
from hpcscientist.models.serving.nodes.node import other_gpus
from hpcscientist.models.serving.order import Endpoint, ServingPaths
from hpcscientist.models.serving.plane import END_S, Plane
from hpcscientist.models.serving.replicas import open_served
from hpcscientist.ports import Model, Tell
from hpcscientist.records.events import PlaneStarted
from hpcscientist.records.model_calls import ModelReply, ModelRequest

# A model that the plane (the group of model servers) beside the driver serves.
#
# When a plane ends, requests fail before its processes are known to have ended. An endpoint error
# fails a campaign. The end of a plane is a machine failure: the next job continues with a new one.

_POLL_S = 0.3
# Time for the driver to see the plane's end itself. It then leaves Slurm's jobs running, which a
# failing request would have cancelled.
_HEARD_S = 5.0


class PlaneModel:
    """A model of the plane; after an endpoint error it waits to see whether the plane has ended.

    `opened` returns the model once it answers; it is awaited at the first request. `lost` returns
    why the plane is gone, "" while it is not; `patience_s` is how long that may take to be known.
    If the plane is still there then, the request is sent once more. `at_once` is how many requests
    the model answers at once.
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
        """Check that the inner model can be asked. Raises EndpointError, PlaneLost."""
        await (await self._model()).probe()

    @property
    def idle(self) -> int:
        """How many more requests the model would answer at once."""
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
        """Return the model once it answers. Raises PlaneLost if it never will."""
        async with self._opening:
            if self._inner is None:
                try:
                    self._inner = await self._opened()
                except ServingError as error:
                    await asyncio.sleep(_HEARD_S)
                    raise PlaneLost(str(error)) from error
            return self._inner

    async def _heed(self, error: EndpointError) -> None:
        """Return if the plane is still there after the patience. Raises PlaneLost if it ended."""
        until = time.monotonic() + self._patience_s
        while not self._lost():
            if time.monotonic() > until:
                return
            await asyncio.sleep(_POLL_S)
        await asyncio.sleep(_HEARD_S)
        raise PlaneLost(self._lost()) from error


@dataclass(frozen=True, slots=True)
class DriverSidecar:
    """The plane that serves a campaign while it is driven; it may still be starting.

    `answers` holds the endpoint once the models answer, or why they never will. `machine` is its
    nodes, including the share that trials keep. `since` is its start, in seconds since the epoch.
    """

    plane: Plane
    answers: Future[Endpoint]
    machine: Machine
    settings: Settings
    paths: ServingPaths
    folders: dict[str, Path]
    since: float

    @property
    def is_ready(self) -> bool:
        """Whether the models answer."""
        return self.answers.done() and self.failure is None

    @property
    def failure(self) -> BaseException | None:
        """The error that kept the models from ever answering; None while they may."""
        return self.answers.exception() if self.answers.done() else None

    @property
    def lost(self) -> str:
        """Why the models are gone or never answered; "" while they answer or may do so."""
        why = self.failure
        return self.plane.lost or (str(why) or type(why).__name__ if why is not None else "")

    @property
    def engines(self) -> Engines:
        """The engines' share of each node."""
        order = self.plane.order
        return Engines(gpus=order.gpus, memory_mb=order.memory_mb)

    @property
    def gpus_left(self) -> tuple[str, ...] | None:
        """This machine's GPUs for trials beside the engines, by name; None if they share all."""
        return other_gpus(self.engines.gpus, self.machine.gpus, os.environ) or None

    def started(self, generation: int) -> PlaneStarted:
        """Return the event for models that answer."""
        return PlaneStarted(
            generation=generation,
            nodes=self.machine.nodes,
            gpus=self.machine.nodes * self.engines.gpus,
            models=tuple(model.name for model in self.plane.order.models),
            time=self.since,
        )

    def served(self) -> dict[str, Served]:
        """Return the models by their `vllm:` SPECs; each request waits until its model answers."""
        names = drafting.names_of(list(self.folders.values()))
        contexts = self.plane.order.contexts
        return {
            spec: Served(
                open=partial(self._model, names[folder]),
                context=contexts.get(names[folder], 0),
                folder=folder,
            )
            for spec, folder in self.folders.items()
        }

    def _model(self, name: str) -> Model:
        """Return what asks a model."""

        async def opened() -> Model:
            # Shielded: a caller that gives up waiting does not cancel the start.
            endpoint = await asyncio.shield(asyncio.wrap_future(self.answers))
            client = self.settings.client
            wide = max(client.concurrency, *(m.at_once for m in self.plane.order.models))
            own = client.model_copy(update={"concurrency": wide})
            return open_served(self.paths, endpoint, name, own)

        at_once = sum(m.at_once for m in self.plane.order.models if m.name == name)
        return PlaneModel(name, opened, lambda: self.lost, at_once=at_once)


def serves(paths: RunPaths) -> bool:
    """Return whether a campaign's driver serves models of its own."""
    return bool(serving.specs(frozen.read(paths).role_specs))


@contextmanager
def beside(paths: RunPaths, tell: Tell, job_id: str) -> Iterator[DriverSidecar | None]:
    """Serve a campaign's own models in this context; yield None if it has none.

    The models start while the caller goes on: the baseline's trials need no model, and loading a
    model takes minutes. Raises ServingError and SchedulerError.
    """
    config = frozen.read(paths)
    wanted = serving.specs(config.role_specs)
    if not wanted:
        yield None
        return
    folders = {spec: serving.folder_of(spec, paths.root) for spec in wanted}
    request = serving.ServingRequest(
        paths=ServingPaths(paths.serving),
        owner=config.campaign_id,
        folders=tuple(dict.fromkeys(folders.values())),
        settings=config.settings.serving,
        site=config.site,
        keep=colocated_trials.keeper(paths, config, job_id),
    )
    slurm = Slurm.of(config.site)
    allocation = nodes.allocation_of(slurm, job_id) if job_id else nodes.here()
    launcher = nodes.launcher_of(config.site, job_id)
    since = time.time()
    with serving.drafted(request, allocation, launcher, tell) as (plane, machine):
        yield DriverSidecar(
            plane=plane,
            answers=plane.begin(),
            machine=machine,
            settings=config.settings,
            paths=request.paths,
            folders=folders,
            since=since,
        )
