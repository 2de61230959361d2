"""Checks that the job that drives a campaign leaves nodes for trials that queue beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcscientist.errors import SchedulerError, UsageError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.models.serving.fitting.gpus import parse_gres
from hpcscientist.recipe.schema import Resources
from hpcscientist.records.site import Site

# One row per node and partition: node, partition, the same with * for the default partition,
# whether jobs share nodes there, CPUs, MiB, generic resources.
_SINFO = "--format=%N|%R|%P|%h|%c|%m|%G"


@dataclass(frozen=True, slots=True)
class Needs:
    """What a job needs of a node: CPUs, MiB (0 if not requested), GPUs."""

    cpus: int
    memory_mb: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a partition; `is_shared` is false if jobs get whole nodes there."""

    name: str
    partition: str
    is_default: bool
    is_shared: bool
    has: Needs


def require(slurm: Slurm, site: Site, resources: Resources, nodes: int) -> None:
    """Raise UsageError if a controller job of that many nodes would leave no node for its trials.

    Does nothing if Slurm does not show what its nodes have.
    """
    try:
        found = parse(slurm.run("sinfo", "--Node", "--noheader", _SINFO))
    except SchedulerError:
        return
    most = most_nodes(found, site, resources)
    if most is None or nodes <= most:
        return
    fewer = f"give --nodes {most}, " if most else ""
    alone = "" if most else "leave --nodes out and drive from here, "
    raise UsageError(
        f"--nodes {nodes}: the driver's job would hold every node that trials can run on "
        f"({_words(site.slurm.partition)}), so trials would wait forever; {fewer}{alone}set "
        "serving.trials_inside = true, or name another partition in the site profile's [controller]"
    )


def parse(sinfo: str) -> list[Node]:
    """Return the nodes that sinfo printed."""
    found = []
    for line in sinfo.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 7 or not (fields[4].isdigit() and fields[5].isdigit()):
            continue
        name, partition, marked, shares, cpus, memory, gres = fields
        gpus = sum(count for _, count in parse_gres(gres))
        found.append(
            Node(
                name=name,
                partition=partition,
                is_default=marked.endswith("*"),
                is_shared=not shares.lower().startswith("excl"),
                has=Needs(int(cpus), int(memory), gpus),
            )
        )
    return found


def most_nodes(nodes: Sequence[Node], site: Site, resources: Resources) -> int | None:
    """Return how many nodes the controller job may hold and still leave room for trials.

    None means any number; also if no node holds a trial at all, because Slurm will report that.
    """
    slurm, own = site.slurm, site.controller
    asks_memory = slurm.memory != "none"
    memory_mb = resources.memory_mb + slurm.memory_margin_mb
    trial = Needs(resources.cpus, memory_mb if asks_memory else 0, resources.gpus)
    driver = Needs(own.cpus, own.memory_mb if asks_memory else 0, own.gpus)
    fit = {n.name: n for n in _of(nodes, slurm.partition, slurm.exclude) if _fits(n.has, trial)}
    if not fit:
        return None
    held = {
        n.name: n
        for n in _of(nodes, own.partition or slurm.partition, slurm.exclude)
        if _fits(n.has, driver)
    }
    is_whole = any(option.startswith("--exclusive") for option in own.extra)
    filled = {
        name
        for name, node in held.items()
        if name in fit
        and (
            is_whole
            or not (node.is_shared and fit[name].is_shared)
            or not _fits(_less(node.has, driver), trial)
        )
    }
    if fit.keys() - filled:
        return None
    # Nodes where no trial fits may all be held; of the others at least one must be left.
    return len(held.keys() - filled) + len(filled) - 1


def _of(nodes: Sequence[Node], partitions: str, excluded: Sequence[str]) -> list[Node]:
    names = partitions.split(",")
    return [
        node
        for node in nodes
        if (node.partition in names if partitions else node.is_default)
        and node.name not in excluded
    ]


def _fits(has: Needs, wanted: Needs) -> bool:
    return has.cpus >= wanted.cpus and has.memory_mb >= wanted.memory_mb and has.gpus >= wanted.gpus


def _less(has: Needs, taken: Needs) -> Needs:
    return Needs(has.cpus - taken.cpus, has.memory_mb - taken.memory_mb, has.gpus - taken.gpus)


def _words(partition: str) -> str:
    return f"partition {partition}" if partition else "the default partition"
