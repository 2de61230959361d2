"""Nodes that models and trials share: what of each is the engines', and what the trials'.

They share the cores. Memory and GPUs are divided, on every node alike: serving has the first GPUs
and trials the last, as many as serving does as well without. Of one machine that drives by itself
GPUs alone are divided, and none where models and a trial do not fit on GPUs of their own.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.config.settings import ServingSettings
from hpcscientist.errors import ServingError
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving import nodes
from hpcscientist.launching.serving.nodes import Kept
from hpcscientist.models.serving.fitting.drafting import memory_of_node
from hpcscientist.models.serving.fitting.layout import Layout, Machine
from hpcscientist.recipe.schema import Resources
from hpcscientist.records.site import Site


@dataclass(frozen=True, slots=True)
class Engines:
    """What serving has of each node. MiB, counts."""

    gpus: int = 0
    memory_mb: int = 0


NO_ENGINES = Engines()


def divide(
    folders: tuple[Path, ...],
    machine: Machine,
    settings: ServingSettings,
    site: Site,
    resources: Resources,
) -> tuple[Machine, dict[Path, Layout]]:
    """Return what of a machine is for serving, beside trials, and how models are laid out there.

    One trial a node has what it needs; more, as long as the models are served no worse. Raises
    ServingError where they do not fit on what is left.
    """
    kept_mb = 0 if machine.gpus or site.slurm.memory == "none" else memory_mb(site, resources)

    def served(gpus: int) -> tuple[Machine, dict[Path, Layout]]:
        left = Kept(gpus, kept_mb).taken_from(machine)
        return left, serving.lay_out(folders, left, settings)

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
) -> tuple[Machine, dict[Path, Layout]]:
    """Return what of the one machine that drives is for serving, and how models are laid out there:
    all of it where trials need no GPU, or GPUs have to be shared. Raises ServingError.
    """
    if 0 < resources.gpus < machine.gpus:
        with contextlib.suppress(ServingError):
            return divide(folders, machine, settings, site, resources)
    return machine, serving.lay_out(folders, machine, settings)


def said_here(
    settings: ServingSettings, site: Site, resources: Resources, folders: tuple[Path, ...]
) -> tuple[str, ...]:
    """Return how this machine's GPUs are divided between models and trials, a line each; () where
    either has none. Raises ServingError where the models do not fit at all.
    """
    if not folders or not resources.gpus:
        return ()
    machine, _ = nodes.foreseen(site, 0)
    if machine is None or not machine.gpus:
        return ()
    left, layouts = divide_here(folders, machine, settings, site, resources)
    kept = machine.gpus - left.gpus
    if kept:
        return (
            *serving.said(layouts),
            f"of this machine models have {left.gpus} GPUs and trials {kept}",
        )
    return (
        *serving.said(layouts),
        f"models and trials share the GPUs of this machine ({machine.gpus}): see that "
        "serving.memory_fraction leaves trials memory",
    )


def engines_of(left: Machine, layouts: dict[Path, Layout]) -> Engines:
    """Return what engines that are laid out so have of each node."""
    return Engines(gpus=left.gpus, memory_mb=memory_of_node(layouts.values(), left))


def _shapes(layouts: dict[Path, Layout]) -> list[tuple[int, ...]]:
    return [
        (one.replicas, one.tensor_parallel, one.pipeline_parallel, one.context)
        for one in layouts.values()
    ]


def memory_mb(site: Site, resources: Resources) -> int:
    """What a trial takes of a node's memory, its worker's own included."""
    return resources.memory_mb + site.slurm.memory_margin_mb
