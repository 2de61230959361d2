"""Trials inside the controller's allocation (`serving.trials_inside`): how many run at once, their
backend, and the share of each node that is kept for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.config.settings import Settings
from hpcscientist.errors import ServingError, UsageError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.steps import NodeGpus, StepsBackend, find_allocation
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving import nodes
from hpcscientist.launching.serving.models import EngineConfigs
from hpcscientist.launching.serving.nodes import Kept
from hpcscientist.launching.serving.sharing import (
    NO_ENGINES,
    Engines,
    divide,
    divide_here,
    engines_of,
    memory_mb,
)
from hpcscientist.models.serving.fitting.layout import MIB, Machine
from hpcscientist.models.serving.fitting.memory import WORKER_RESERVE
from hpcscientist.recipe.folder_copy import LaunchedRecipe
from hpcscientist.recipe.schema import Resources
from hpcscientist.records.site import Site
from hpcscientist.worker.step import MODULE


@dataclass(frozen=True, slots=True)
class Division:
    """The division of nodes between models and trials.

    `at_once`: the most trials that run on all nodes together, 0 if none runs inside. `lines`
    describes the division, () if nothing is divided.
    """

    at_once: int = 0
    lines: tuple[str, ...] = ()


def open_backend(
    paths: RunPaths,
    site: Site,
    campaign_id: str,
    job_id: str,
    resources: Resources,
    engines: Engines,
) -> StepsBackend:
    """Return the backend that runs trials as steps of a job. Raises SchedulerError, UsageError."""
    held = site.controller.gpus
    gpus = NodeGpus(held=held, kept=held - engines.gpus)
    allocation = find_allocation(Slurm.of(site), job_id, gpus)
    slots = len(allocation.nodes) * slots_of_node(site, resources, engines)
    return StepsBackend(paths, site, allocation, campaign_id, MODULE, slots=slots)


def slots_of_node(site: Site, resources: Resources, engines: Engines = NO_ENGINES) -> int:
    """Return how many trials one node holds at once. Raises UsageError if it holds none."""
    own = site.controller
    counts = {"cpus": own.cpus // resources.cpus}
    if site.slurm.memory != "none":
        counts["memory_mb"] = (own.memory_mb - engines.memory_mb) // memory_mb(site, resources)
    if resources.gpus:
        counts["gpus"] = (own.gpus - engines.gpus) // resources.gpus
    lacking = [name for name, count in counts.items() if count < 1]
    if lacking:
        taken = ""
        if engines.memory_mb:
            gpus = f" and {engines.gpus} GPUs" if engines.gpus else ""
            taken = f", {engines.memory_mb} MiB{gpus} of which are for the models that it serves"
        raise UsageError(
            f"serving.trials_inside: a trial needs {_words(resources)}, and a node of the "
            f"controller's job holds {own.cpus} CPUs, {own.memory_mb} MiB and {own.gpus} GPUs"
            f"{taken}; raise {', '.join(lacking)} in the site profile's [controller], or leave "
            "trials_inside out"
        )
    return min(counts.values())


def check(
    settings: Settings, site: Site, resources: Resources, folders: tuple[Path, ...] = ()
) -> Division:
    """Check at launch that trials can run inside, if requested, and return how many.

    `folders` are the models that are served there. Raises UsageError, and ServingError if models
    do not fit beside trials.
    """
    count = settings.nodes
    if not settings.serving.trials_inside:
        return Division()
    if not count:
        raise UsageError(
            "serving.trials_inside: only a job that drives the campaign holds nodes to run trials "
            "on; give --nodes N, or leave trials_inside out"
        )
    alone = slots_of_node(site, resources)
    if not folders:
        return Division(count * alone)
    own = site.controller
    if resources.gpus and own.gpus <= resources.gpus:
        raise UsageError(
            f"serving.trials_inside: a trial needs {_words(resources)}, and of the {own.gpus} GPUs "
            "of a node of the controller's job at least one serves the models; raise gpus in the "
            f"site profile's [controller] to {resources.gpus + 1} or more, or leave trials_inside "
            "out: trials then queue for GPUs of their own"
        )
    most = slots_of_node(site, resources, _least_engines(own.gpus, resources.gpus))
    machine, is_sure = nodes.foreseen(site, count)
    engine = serving.ask_engine(folders, site)
    if why := serving.unread(folders, engine):
        return Division(count * most, (f"each node is divided in the job: {why}",))
    if machine is None:
        said = serving.unsettled(folders, settings.serving, "each node is divided", engine)
        return Division(count * most, said)
    try:
        left, layouts = divide(folders, machine, settings.serving, site, resources, engine)
    except ServingError as error:
        if not is_sure:
            return Division(count * most, (f"perhaps too large: {error}",))
        raise ServingError(
            f"serving.trials_inside: beside a trial of {_words(resources)} a node: {error}"
        ) from error
    engines = engines_of(left, layouts)
    slots = count * slots_of_node(site, resources, engines)
    unsure = serving.doubt(folders, left, settings.serving, engine)
    shares = f"of each node {_shares(site, resources, engines)}; {slots} at once in all"
    return Division(slots, (*serving.said(layouts), shares, *([unsure] if unsure else [])))


def keeper(
    paths: RunPaths, config: CampaignConfig, job_id: str
) -> Callable[[Machine, EngineConfigs], Kept]:
    """Return a function from a whole machine, and what the engine reads in each model's
    config.json, to the share of each node that trials keep.

    `job_id` is the job that drives the campaign, "" if this machine does. The function raises
    ServingError and UsageError if a node does not hold the models and a trial.
    """
    settings, site = config.settings.serving, config.site

    def keep(machine: Machine, engine: EngineConfigs) -> Kept:
        here = not job_id and config.backend == "local"
        if not (settings.trials_inside if job_id else here):
            return Kept()
        needs = LaunchedRecipe(paths.recipe, config.recipe_hash).load().spec.resources
        specs = serving.specs(config.role_specs)
        folders = tuple(dict.fromkeys(serving.folder_of(spec, paths.root) for spec in specs))
        share = divide_here if here else divide
        left, layouts = share(folders, machine, settings, site, needs, engine)
        if here:
            return Kept(machine.gpus - left.gpus)
        # Fail now, and not after minutes of starting the model servers.
        slots_of_node(site, needs, engines_of(left, layouts))
        return Kept(machine.gpus - left.gpus, machine.memory_mb - left.memory_mb)

    return keep


def _least_engines(held: int, needed: int) -> Engines:
    """Return the least share of a node for serving; a worker's memory is the same on any GPU."""
    gpus = held - (held - 1) // needed * needed if needed else held
    return Engines(gpus=gpus, memory_mb=gpus * WORKER_RESERVE // MIB)


def _shares(site: Site, resources: Resources, engines: Engines) -> str:
    """Return a node's shares for models and for trials in words, as far as they are divided."""
    own, parts = site.controller, []
    if resources.gpus:
        parts.append((engines.gpus, own.gpus, "GPUs"))
    if site.slurm.memory != "none":
        parts.append((engines.memory_mb, own.memory_mb, "MiB"))
    models = " and ".join(f"{part} {unit}" for part, _, unit in parts) or "nothing of their own"
    trials = " and ".join(f"{whole - part} {unit}" for part, whole, unit in parts) or "neither"
    return f"models have {models}, trials {trials}"


def _words(resources: Resources) -> str:
    gpus = f" and {resources.gpus} GPUs" if resources.gpus else ""
    return f"{resources.cpus} CPUs, {resources.memory_mb} MiB{gpus}"
