"""Divides nodes that models and trials share between engines and trials.

Engines and trials share the cores. Memory and GPUs are divided, equally on every node: serving gets
the first GPUs, and trials the last, as many as serving can spare without a worse layout. On a
machine that drives a campaign without Slurm only GPUs are divided, and none if models and a trial
do not fit on separate GPUs.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from hpcscientist.config.settings import ServingSettings
from hpcscientist.errors import ServingError
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving import nodes
from hpcscientist.launching.serving.models import EngineConfigs
from hpcscientist.launching.serving.nodes import Kept
from hpcscientist.models.serving.fitting.drafting import memory_of_node
from hpcscientist.models.serving.fitting.layout import Layout, Machine
from hpcscientist.recipe.schema import Resources
from hpcscientist.records.site import Site


@dataclass(frozen=True, slots=True)
class Engines:
    """The share of each node for serving."""

    gpus: int = 0
    memory_mb: int = 0


NO_ENGINES = Engines()


def divide(
    folders: tuple[Path, ...],
    machine: Machine,
    settings: ServingSettings,
    site: Site,
    resources: Resources,
    engine: EngineConfigs = MappingProxyType({}),
) -> tuple[Machine, dict[Path, Layout]]:
    """Return the share of a machine for serving beside trials, and the models' layouts there.

    One trial per node gets what it needs; more trials do if that does not change the models'
    layout. Raises ServingError if the models do not fit on the rest.
    """
    kept_mb = 0 if machine.gpus or site.slurm.memory == "none" else memory_mb(site, resources)

    def served(gpus: int) -> tuple[Machine, dict[Path, Layout]]:
        left = Kept(gpus, kept_mb).taken_from(machine)
        return left, serving.lay_out(folders, left, settings, engine)

    needed = resources.gpus
    if not needed or machine.gpus <= needed:
        return served(0)
    least = served(needed)
    most = (machine.gpus - 1) // needed * needed
    for gpus in range(most, needed, -needed):
        try:
            found = served(gpus)
        except ServingError:
            continue
        if _shapes(found[1]) == _shapes(least[1]):
            return found
    return least


def divide_here(
    folders: tuple[Path, ...],
    machine: Machine,
    settings: ServingSettings,
    site: Site,
    resources: Resources,
    engine: EngineConfigs = MappingProxyType({}),
) -> tuple[Machine, dict[Path, Layout]]:
    """Return the share of the driver's own machine for serving, and the models' layouts there.

    It is the whole machine if trials need no GPU, or if models and trials must share the GPUs.
    Raises ServingError.
    """
    if 0 < resources.gpus < machine.gpus:
        with contextlib.suppress(ServingError):
            return divide(folders, machine, settings, site, resources, engine)
    return machine, serving.lay_out(folders, machine, settings, engine)


def said_here(
    settings: ServingSettings,
    site: Site,
    resources: Resources,
    folders: tuple[Path, ...],
    engine: EngineConfigs = MappingProxyType({}),
) -> tuple[str, ...]:
    """Return how this machine's GPUs are divided between models and trials, one line each.

    Returns () if there are no models, or if trials or the machine have no GPU. Raises ServingError
    if the models do not fit at all.
    """
    if not folders or not resources.gpus:
        return ()
    machine, _ = nodes.foreseen(site, 0)
    if machine is None or not machine.gpus:
        return ()
    left, layouts = divide_here(folders, machine, settings, site, resources, engine)
    kept = machine.gpus - left.gpus
    if kept:
        return (
            *serving.said(layouts),
            f"of this machine models have {left.gpus} GPUs and trials {kept}",
        )
    return (
        *serving.said(layouts),
        f"models and trials share the GPUs of this machine ({machine.gpus}): make sure that "
        "serving.memory_fraction leaves memory for trials",
    )


def engines_of(left: Machine, layouts: dict[Path, Layout]) -> Engines:
    """Return the share of each node that engines with these layouts use."""
    return Engines(gpus=left.gpus, memory_mb=memory_of_node(layouts.values(), left))


def _shapes(layouts: dict[Path, Layout]) -> list[tuple[int, ...]]:
    return [
        (one.replicas, one.tensor_parallel, one.pipeline_parallel, one.context)
        for one in layouts.values()
    ]


def memory_mb(site: Site, resources: Resources) -> int:
    """Return the MiB of a node that a trial takes, including its worker's own memory."""
    return resources.memory_mb + site.slurm.memory_margin_mb
