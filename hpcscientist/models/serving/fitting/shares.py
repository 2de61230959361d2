"""Divides one machine between several models."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping

from pydantic import Field

from hpcscientist.config.settings import ServingSettings
from hpcscientist.errors import ServingError
from hpcscientist.models.serving.checking.weights import Checkpoint
from hpcscientist.models.serving.fitting.fit import Layout, Machine, lay_out
from hpcscientist.records.base import Record


class Demand(Record):
    """A model to serve. `share` is its part of the work relative to the others', as in tokens."""

    checkpoint: Checkpoint
    share: float = Field(default=1.0, gt=0)


def lay_out_all(
    demands: Mapping[str, Demand], machine: Machine, settings: ServingSettings
) -> dict[str, Layout]:
    """Return a layout for each model, by the names given.

    Each model gets one replica first. Then the model with the fewest GPUs for its share gets
    another, until none fits. `serving.replicas` applies to each model. If the models do not fit
    with the layouts they would have alone, replicas get fewer GPUs, and so less context. Raises
    ServingError where not all models fit together.
    """
    if len(demands) == 1:
        return {name: lay_out(d.checkpoint, machine, settings) for name, d in demands.items()}
    part, room = _parts(len(demands), machine, settings)
    one = settings.model_copy(update={"replicas": 1 if machine.gpus == 0 else 0})
    layouts = {name: lay_out(demand.checkpoint, part, one) for name, demand in demands.items()}
    while not _fit_together(list(room), layouts, settings.replicas or 1):
        narrower = _narrower(demands, layouts, part, one)
        if not narrower:
            break
        layouts |= narrower
    order = _largest_first(layouts)
    if not _fit_together(room, layouts, settings.replicas or 1):
        needs = ", ".join(f"{name} {_size(layouts[name])}" for name in order)
        raise ServingError(
            f"{len(demands)} models do not fit together on {machine.nodes} nodes of "
            f"{machine.gpus} GPUs (GPUs a replica: {needs}); take more --nodes, smaller "
            "models, or one model for all roles"
        )
    counts = dict.fromkeys(layouts, settings.replicas or 1)
    waiting = set() if settings.replicas else set(layouts)
    while waiting:
        name = min(
            waiting,
            key=lambda n: (counts[n] * _size(layouts[n]) / demands[n].share, order.index(n)),
        )
        if _place(room, layouts[name]):
            counts[name] += 1
        else:
            waiting.remove(name)
    return {name: _final(layouts[name], counts[name], len(demands)) for name in demands}


def _fit_together(room: list[int], layouts: Mapping[str, Layout], replicas: int) -> bool:
    """Take `replicas` replicas of each model from the free GPUs; return whether all fit."""
    return all(_place(room, layouts[name]) for name in _largest_first(layouts) * replicas)


def _largest_first(layouts: Mapping[str, Layout]) -> list[str]:
    return sorted(layouts, key=lambda name: (-_size(layouts[name]), name))


def _narrower(
    demands: Mapping[str, Demand],
    layouts: Mapping[str, Layout],
    machine: Machine,
    settings: ServingSettings,
) -> dict[str, Layout]:
    """Return a layout on fewer GPUs of the largest replica that has one; {} if none does."""
    for name in _largest_first(layouts):
        gpus = layouts[name].gpus_per_replica - 1
        if gpus < 1:
            continue
        nodes = max(1, gpus // machine.gpus)  # whole nodes, or a part of one
        fewer = {"nodes": nodes, "gpus": min(gpus, machine.gpus)}
        with contextlib.suppress(ServingError):
            part = machine.model_copy(update=fewer)
            return {name: lay_out(demands[name].checkpoint, part, settings)}
    return {}


def doubt(demands: Mapping[str, Demand], machine: Machine, settings: ServingSettings) -> str:
    """Return why models that seem to fit may not, as far as cores are unknown; "" if they do.

    On cores that turn out to be slow with 16 bits, `auto` means float32.
    """
    if machine.gpus or settings.dtype != "auto" or machine.short_numbers is not None:
        return ""
    try:
        lay_out_all(demands, machine.model_copy(update={"short_numbers": False}), settings)
    except ServingError as error:
        return f"perhaps too large, for cores without AVX-512 need float32: {error}"
    return ""


def _parts(models: int, machine: Machine, settings: ServingSettings) -> tuple[Machine, list[int]]:
    """Return the machine that one replica may count on, and the free GPUs of each node.

    Without GPUs, a node is divided into as many engines as each model needs to have its replicas.
    """
    if machine.gpus:
        return machine, [machine.gpus] * machine.nodes
    engines = math.ceil(models * (settings.replicas or 1) / machine.nodes)
    part = machine.model_copy(
        update={
            "memory_mb": machine.memory_mb // engines,
            "cpus": max(1, machine.cpus // engines),
        }
    )
    return part, [engines] * machine.nodes


def _size(layout: Layout) -> int:
    return max(1, layout.gpus_per_replica)


def _place(room: list[int], layout: Layout) -> bool:
    """Take a replica's GPUs from the nodes' free ones; return whether there were enough.

    All stages go to the fullest node that has room for them, or else to the emptiest nodes.
    """
    stage, stages = layout.tensor_parallel, layout.pipeline_parallel
    if not layout.gpus_per_replica:  # one place on a node, however many workers the engine has
        stage = stages = 1
    fits = [node for node, free in enumerate(room) if free >= stage * stages]
    if fits:
        room[min(fits, key=lambda node: room[node])] -= stage * stages
        return True
    tried = list(room)
    for _ in range(stages):
        node = max(range(len(tried)), key=lambda n: tried[n])
        if tried[node] < stage:
            return False
        tried[node] -= stage
    room[:] = tried
    return True


def _final(layout: Layout, replicas: int, models: int) -> Layout:
    said = f"{replicas} replicas here: the machine is shared by {models} models"
    kept = [line for line in layout.why if "replicas on" not in line]
    return layout.model_copy(update={"replicas": replicas, "why": (*kept, said)})
