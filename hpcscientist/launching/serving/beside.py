"""The model plane of a campaign, beside the driver for as long as that lives."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hpcscientist.config.settings import FanOutChoice, Settings
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.launching.serving import inside, nodes
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving.fan_out import from_where
from hpcscientist.launching.serving.plane_model import PlaneModel
from hpcscientist.launching.serving.sharing import Engines
from hpcscientist.models.fanout import spread
from hpcscientist.models.fanout.choosing import open_fan_out
from hpcscientist.models.fanout.on_ray import RayCluster
from hpcscientist.models.fanout.spread import SpreadModel
from hpcscientist.models.open import Served
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
class Beside:
    """The plane that serves a campaign while it is driven; `machine`: its nodes, what trials keep
    of them included. `since`: seconds since the epoch. `fan_out`: from where requests go out.
    """

    plane: Plane
    endpoint: Endpoint
    machine: Machine
    settings: Settings
    paths: ServingPaths
    folders: dict[str, Path]
    since: float
    python: str
    fan_out: FanOutChoice

    @property
    def lost(self) -> str:
        """Why it is gone; "" while it is not."""
        return self.plane.lost

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
        """Return the event that says so."""
        return PlaneStarted(
            generation=generation,
            nodes=self.machine.nodes,
            gpus=self.machine.nodes * self.engines.gpus,
            models=self.endpoint.models,
            time=self.since,
        )

    def served(self) -> dict[str, Served]:
        """Return the models by their `vllm:` SPECs."""
        names = drafting.names_of(list(self.folders.values()))
        return {
            spec: Served(
                open=partial(self._model, names[folder]),
                context=self.endpoint.contexts.get(names[folder], 0),
                folder=folder,
            )
            for spec, folder in self.folders.items()
        }

    def _model(self, name: str) -> Model:
        """Return what asks a model."""
        where = spread.Endpoint(
            base_url=self.endpoint.url,
            name=name,
            key_file=str(self.paths.key),
            client=self.settings.client,
        )
        cluster = RayCluster(
            address=self.endpoint.ray_address, token_file=str(self.paths.token), python=self.python
        )
        fan_out = open_fan_out(self.fan_out, self.settings.client.concurrency, cluster)
        return PlaneModel(SpreadModel(fan_out, where), lambda: self.lost)


def serves(paths: RunPaths) -> bool:
    """Tell whether a campaign's models are to be served by its own driver."""
    return bool(serving.specs(frozen.read(paths).role_specs))


@contextmanager
def beside(
    paths: RunPaths, tell: Tell, job_id: str, check: Callable[[], None]
) -> Iterator[Beside | None]:
    """Serve the models of a campaign that is to be driven; None where it has none of its own.

    `check` is called while they come to be served: what it raises ends that. Raises ServingError
    and SchedulerError.
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
        keep=inside.keeper(paths, config, job_id),
    )
    slurm = Slurm.of(config.site)
    allocation = nodes.allocation_of(slurm, job_id) if job_id else nodes.here()
    launcher = nodes.launcher_of(config.site, job_id)
    since = time.time()
    with serving.serve(request, allocation, launcher, tell, check) as (plane, endpoint, machine):
        yield Beside(
            plane=plane,
            endpoint=endpoint,
            machine=machine,
            settings=config.settings,
            paths=request.paths,
            folders=folders,
            since=since,
            python=shlex.join(launcher.interpreter(paths.root)),
            fan_out=from_where(config.settings.serving.fan_out, config.site),
        )
