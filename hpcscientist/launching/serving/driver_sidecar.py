"""The model plane of a campaign, beside the driver for as long as that lives."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hpcscientist.config.settings import Settings
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.launching.serving import colocated_trials, nodes
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving.plane_model import PlaneModel
from hpcscientist.launching.serving.sharing import Engines
from hpcscientist.models.open import Served
from hpcscientist.models.serving.asking import open_served
from hpcscientist.models.serving.fitting import drafting
from hpcscientist.models.serving.fitting.layout import Machine
from hpcscientist.models.serving.nodes.node import other_gpus
from hpcscientist.models.serving.order import Endpoint
from hpcscientist.models.serving.paths import ServingPaths
from hpcscientist.models.serving.plane import Plane
from hpcscientist.ports.model import Model
from hpcscientist.ports.telling import Tell
from hpcscientist.records.events import PlaneStarted


@dataclass(frozen=True, slots=True)
class DriverSidecar:
    """The plane that serves a campaign while it is driven, or is still starting.

    `answers` holds where models answer once they do, or why they never will. `machine`: its nodes,
    what trials keep of them included. `since`: seconds since the epoch.
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
        """What kept the models from answering at all; None while they may."""
        return self.answers.exception() if self.answers.done() else None

    @property
    def lost(self) -> str:
        """Why there are no models any more; "" while there are, or may be."""
        why = self.failure
        return self.plane.lost or (str(why) or type(why).__name__ if why is not None else "")

    @property
    def engines(self) -> Engines:
        """What engines have of each node."""
        order = self.plane.order
        return Engines(gpus=order.gpus, memory_mb=order.memory_mb)

    @property
    def gpus_left(self) -> tuple[str, ...] | None:
        """This machine's GPUs for trials beside the engines, by name; None: they share all."""
        return other_gpus(self.engines.gpus, self.machine.gpus, os.environ) or None

    def started(self, generation: int) -> PlaneStarted:
        """Return the event that says that models answer."""
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
            # Shielded: who gives up waiting does not end the start.
            endpoint = await asyncio.shield(asyncio.wrap_future(self.answers))
            client = self.settings.client
            wide = max(client.concurrency, *(m.at_once for m in self.plane.order.models))
            own = client.model_copy(update={"concurrency": wide})
            return open_served(self.paths, endpoint, name, own)

        at_once = sum(m.at_once for m in self.plane.order.models if m.name == name)
        return PlaneModel(name, opened, lambda: self.lost, at_once=at_once)


def serves(paths: RunPaths) -> bool:
    """Tell whether a campaign's models are to be served by its own driver."""
    return bool(serving.specs(frozen.read(paths).role_specs))


@contextmanager
def beside(paths: RunPaths, tell: Tell, job_id: str) -> Iterator[DriverSidecar | None]:
    """Serve the models of a campaign that is to be driven; None where it has none of its own.

    They come to be served while the caller goes on: the baseline's trials need no model, and
    loading one takes minutes. Raises ServingError and SchedulerError.
    """
    config = frozen.read(paths)
    wanted = serving.specs(config.role_specs)
    if not wanted:
        yield None
        return
    folders = {spec: serving.folder_of(spec, paths.root) for spec in wanted}
    request = serving.Request(
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
