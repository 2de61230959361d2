"""Where models could be served: partitions, the nodes of a controller job, or this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hpcscientist.doctor import slurm
from hpcscientist.doctor.compute.records import NodeReport
from hpcscientist.doctor.slurm import NodeKind, Partition
from hpcscientist.launching.serving import nodes
from hpcscientist.models.serving.fitting.layout import Machine
from hpcscientist.models.serving.fitting.memory import memory_by_name, parse_gres
from hpcscientist.records.site import Site

HERE = "this machine"


@dataclass(frozen=True, slots=True)
class ServingPlace:
    """A place where models could be served. `nodes` is how many it has, `note` what is uncertain.

    `machine` is one of its nodes; the GPUs' memory is 0 if unknown. `is_chosen`: models must fit
    here.
    """

    name: str
    nodes: int
    machine: Machine
    is_chosen: bool
    note: str = ""


def of_the_job(site: Site, count: int, report: NodeReport | None) -> ServingPlace:
    """Return the nodes of the controller job, as the site profile's [controller] asks for them.

    A launch lays models out there. `report` is what the doctor's job found on one of them.
    """
    own = site.controller
    machine, is_sure = nodes.foreseen(site, count)
    memory_mb = machine.gpu_memory_mb if machine else 0
    note = "" if is_sure or not machine else "; its GPUs' memory is the least of their kind"
    if own.gpus and report is not None and report.gpu_memory_mb:
        memory_mb, note = min(report.gpu_memory_mb), f"; memory as the driver of {report.node} says"
    return ServingPlace(
        name="the job of --nodes",
        nodes=count,
        machine=Machine(
            nodes=1,
            gpus=own.gpus,
            gpu_memory_mb=memory_mb,
            cpus=own.cpus,
            memory_mb=own.memory_mb,
        ),
        is_chosen=True,
        note=note,
    )


def places_of(
    found: Sequence[Partition], name: str, report: NodeReport | None, *, binding: bool = True
) -> list[ServingPlace]:
    """Return the places on a cluster for models: partitions with GPUs, and the chosen partition.

    `report` is what the doctor's job found on a node of the chosen partition. Without `binding`
    all places are only for comparison.
    """
    mine = slurm.chosen(found, name)
    return [
        replace(place, is_chosen=place.is_chosen and binding)
        for partition in found
        for kind in partition.kinds
        if kind.usable and (kind.gpus or partition in mine)
        for place in _places(partition, kind, partition in mine, report)
    ]


def _places(
    partition: Partition, kind: NodeKind, is_chosen: bool, report: NodeReport | None
) -> Iterator[ServingPlace]:
    nodes = kind.usable
    if partition.max_nodes.isdigit():
        nodes = min(nodes, int(partition.max_nodes))
    for gres, count in parse_gres(kind.gpus) or (("", 0),):
        memory_mb, note = _memory(gres, report if is_chosen else None) if count else (0, "")
        yield ServingPlace(
            name=f"{partition.name}" + (f" ({count} {gres or 'GPUs'} a node)" if count else ""),
            nodes=max(1, nodes),
            machine=Machine(
                nodes=1,
                gpus=count,
                gpu_memory_mb=memory_mb,
                cpus=max(1, kind.cpus),
                memory_mb=kind.memory_mb,
            ),
            is_chosen=is_chosen,
            note=note,
        )


def _memory(gres: str, report: NodeReport | None) -> tuple[int, str]:
    """Return a GPU's MiB, from the GPU driver or from its name, and a note on uncertainty."""
    if report is not None and report.gpu_memory_mb:
        return min(report.gpu_memory_mb), f"; memory as the driver of {report.node} says"
    known = memory_by_name(gres)
    if known is None:
        return 0, f": Slurm calls them {gres!r}" if gres else ": Slurm names no type"
    if known.is_sure:
        return known.mb, ""
    return known.mb, f"; counted as the smallest {gres}, {known.mb / 1024:.0f} GiB"


def here(site: Site) -> ServingPlace:
    """Return this machine with its resources, as a launch without --nodes would use it."""
    machine = nodes.machine_of(site, nodes.here(), is_slurm=False)
    return ServingPlace(name=HERE, nodes=1, machine=machine, is_chosen=True)
