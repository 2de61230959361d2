"""Trials on the nodes that serve the models: how many, and what they have of each node.

Inside the controller's allocation (`serving.trials_inside`), or on the one machine that drives.
They share the nodes' cores with the engines. Memory and GPUs are divided, on every node alike:
serving has the first GPUs and trials the last, as many as serving does as well without. Of one
machine GPUs alone are, and none where it has no more than a trial needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.config.settings import ServingSettings, Settings
from hpcscientist.errors import ServingError, UsageError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.steps.backend import StepsBackend
from hpcscientist.execution.backends.steps.command import find_allocation
from hpcscientist.execution.backends.steps.gpus import NodeGpus
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving import nodes
from hpcscientist.launching.serving.nodes import Kept
from hpcscientist.models.serving.fitting.drafting import memory_of_node
from hpcscientist.models.serving.fitting.layout import MIB, Layout, Machine
from hpcscientist.models.serving.fitting.memory import WORKER_RESERVE
from hpcscientist.recipe.load import load
from hpcscientist.recipe.schema import Resources
from hpcscientist.records.site import Site
from hpcscientist.worker.step import MODULE


@dataclass(frozen=True, slots=True)
class Engines:
    """What serving has of each node. MiB, counts."""

    gpus: int = 0
    memory_mb: int = 0


NO_ENGINES = Engines()


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
    allocation = find_allocation(Slurm(site.watch.command_s), job_id, gpus)
    slots = len(allocation.nodes) * slots_of_node(site, resources, engines)
    return StepsBackend(paths, site, allocation, campaign_id, MODULE, slots=slots)


def slots_of_node(site: Site, resources: Resources, engines: Engines = NO_ENGINES) -> int:
    """Return how many trials one node holds at once. Raises UsageError where it holds none."""
    own = site.controller
    counts = {"cpus": own.cpus // resources.cpus}
    if site.slurm.memory != "none":
        counts["memory_mb"] = (own.memory_mb - engines.memory_mb) // _memory_mb(site, resources)
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
) -> tuple[str, ...]:
    """See at launch that trials can run inside, where that is asked for.

    `folders`: the models that are served there. Return how nodes are divided between these and
    trials, a line each; () where nothing is. Raises UsageError, and ServingError where models do
    not fit beside trials.
    """
    if not settings.serving.trials_inside:
        return ()
    if not settings.nodes:
        raise UsageError(
            "serving.trials_inside: only a job that drives the campaign holds nodes to run trials "
            "on; give --nodes N, or leave trials_inside out"
        )
    slots_of_node(site, resources)
    if not folders:
        return ()
    own = site.controller
    if resources.gpus and own.gpus <= resources.gpus:
        raise UsageError(
            f"serving.trials_inside: a trial needs {_words(resources)}, and of the {own.gpus} GPUs "
            "of a node of the controller's job at least one serves the models; raise gpus in the "
            f"site profile's [controller] to {resources.gpus + 1} or more, or leave trials_inside "
            "out: trials then queue for GPUs of their own"
        )
    slots_of_node(site, resources, _least_engines(own.gpus, resources.gpus))
    machine, is_sure = nodes.foreseen(site, settings.nodes)
    if machine is None or not is_sure:
        return (
            "how each node is divided between models and trials is settled in the job: the memory "
            "of its GPUs is not known here",
        )
    try:
        left, layouts = divide(folders, machine, settings.serving, site, resources)
    except ServingError as error:
        raise ServingError(
            f"serving.trials_inside: beside a trial of {_words(resources)} a node: {error}"
        ) from error
    engines = _engines(left, layouts)
    count = settings.nodes * slots_of_node(site, resources, engines)
    return (*_said(layouts), f"of each node {_shares(machine, engines)}; {count} at once in all")


def check_here(
    settings: Settings, site: Site, resources: Resources, folders: tuple[Path, ...]
) -> tuple[str, ...]:
    """Return how this machine's GPUs are divided between models and trials, a line each; () where
    trials need none. Raises ServingError where models do not fit beside trials.
    """
    machine, _ = nodes.foreseen(site, 0)
    if machine is None or not folders or not resources.gpus or not machine.gpus:
        return ()
    if machine.gpus <= resources.gpus:
        return (
            f"models and trials share this machine's {machine.gpus} GPUs: a trial needs "
            f"{resources.gpus} of them; see that serving.memory_fraction leaves it memory",
        )
    left, layouts = divide(folders, machine, settings.serving, site, resources)
    return (*_said(layouts), f"of this machine {_shares(machine, _engines(left, layouts))}")


def keeper(paths: RunPaths, config: CampaignConfig, job_id: str) -> Callable[[Machine], Kept]:
    """Return what says by a whole machine what of each node a campaign's trials keep; `job_id` of
    the job that drives it, "" where this machine does.

    It raises ServingError and UsageError where a node does not hold models and a trial.
    """
    settings, site = config.settings.serving, config.site

    def keep(machine: Machine) -> Kept:
        needs = load(paths.recipe).spec.resources
        here = config.backend == "local" and 0 < needs.gpus < machine.gpus
        if not (settings.trials_inside if job_id else here):
            return Kept()
        folders = [serving.folder_of(spec, paths.root) for spec in serving.specs(config.role_specs)]
        left, layouts = divide(tuple(dict.fromkeys(folders)), machine, settings, site, needs)
        if here:
            return Kept(machine.gpus - left.gpus)
        slots_of_node(site, needs, _engines(left, layouts))  # not after minutes of starting
        return Kept(machine.gpus - left.gpus, machine.memory_mb - left.memory_mb)

    return keep


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
    memory_mb = 0 if machine.gpus or site.slurm.memory == "none" else _memory_mb(site, resources)

    def served(gpus: int) -> tuple[Machine, dict[Path, Layout]]:
        left = Kept(gpus, memory_mb).taken_from(machine)
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


def _said(layouts: dict[Path, Layout]) -> tuple[str, ...]:
    return tuple(f"{folder.name}: {why}" for folder, one in layouts.items() for why in one.why)


def _shares(machine: Machine, engines: Engines) -> str:
    """Say what of a node models have, and what trials."""
    if machine.gpus:
        return f"models have {engines.gpus} GPUs and trials {machine.gpus - engines.gpus}"
    left = machine.memory_mb - engines.memory_mb
    return f"models have {engines.memory_mb} MiB and trials {left} MiB"


def _engines(left: Machine, layouts: dict[Path, Layout]) -> Engines:
    return Engines(gpus=left.gpus, memory_mb=memory_of_node(layouts.values(), left))


def _least_engines(held: int, needed: int) -> Engines:
    """The least that serving has of a node beside trials; a worker's memory is any GPU's alike."""
    gpus = held - (held - 1) // needed * needed if needed else held
    return Engines(gpus=gpus, memory_mb=gpus * WORKER_RESERVE // MIB)


def _shapes(layouts: dict[Path, Layout]) -> list[tuple[int, ...]]:
    return [
        (one.replicas, one.tensor_parallel, one.pipeline_parallel, one.context)
        for one in layouts.values()
    ]


def _memory_mb(site: Site, resources: Resources) -> int:
    """What a trial takes of a node's memory, its worker's own included."""
    return resources.memory_mb + site.slurm.memory_margin_mb


def _words(resources: Resources) -> str:
    gpus = f" and {resources.gpus} GPUs" if resources.gpus else ""
    return f"{resources.cpus} CPUs, {resources.memory_mb} MiB{gpus}"
