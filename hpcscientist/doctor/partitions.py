"""Partitions as `scontrol show partition` and `sinfo` tell them, and what is to be said of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hpcscientist.doctor.check import Check, State, graded, missing

# One row for nodes that are alike: partition, nodes as allocated/idle/other/total, CPUs and
# MiB of a node, and its generic resources.
SINFO = "--format=%R|%F|%c|%m|%G"
_OPEN_TO_ALL = ("", "ALL", "(null)")


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes of a partition that are alike. MiB; `usable` are those not down or drained."""

    partition: str
    usable: int
    total: int
    cpus: int
    memory_mb: int
    gpus: str


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition and its limits, in Slurm's own words."""

    name: str
    is_default: bool
    state: str
    max_time: str
    max_nodes: str
    accounts: str
    qos: str
    preemption: str
    kinds: tuple[NodeKind, ...] = ()

    @property
    def usable(self) -> int:
        """Nodes that are neither down nor drained."""
        return sum(kind.usable for kind in self.kinds)

    @property
    def gpus(self) -> str:
        """The GPUs of its nodes, in Slurm's words; empty for none."""
        return ", ".join(sorted({kind.gpus for kind in self.kinds if kind.gpus}))


def parse(scontrol: str, sinfo: str) -> list[Partition]:
    """Return the partitions from the output of both commands."""
    kinds = [kind for line in sinfo.splitlines() if (kind := _kind(line)) is not None]
    found = []
    for block in re.split(r"\n\s*\n", scontrol):
        said = dict(re.findall(r"(\w+)=(\S*)", block))
        name = said.get("PartitionName")
        if name:
            found.append(
                Partition(
                    name=name,
                    is_default=said.get("Default") == "YES",
                    state=said.get("State", "?"),
                    max_time=said.get("MaxTime", "?"),
                    max_nodes=said.get("MaxNodes", "?"),
                    accounts=said.get("AllowAccounts", ""),
                    qos=said.get("AllowQos", ""),
                    preemption=said.get("PreemptMode", "OFF"),
                    kinds=tuple(kind for kind in kinds if kind.partition == name),
                )
            )
    return found


def _kind(line: str) -> NodeKind | None:
    fields = [field.strip() for field in line.split("|")]
    if len(fields) != 5 or fields[1].count("/") != 3:
        return None
    allocated, idle, _, total = (_count(part) for part in fields[1].split("/"))
    gres = "" if fields[4] == "(null)" else fields[4]
    return NodeKind(
        partition=fields[0],
        usable=allocated + idle,
        total=total,
        cpus=_count(fields[2]),
        memory_mb=_count(fields[3]),
        gpus=",".join(part for part in gres.split(",") if part.startswith("gpu")),
    )


def _count(text: str) -> int:
    """Slurm writes 2.5K for 2560 nodes, and 32+ for 32 or more."""
    found = re.match(r"([\d.]+)([KMG]?)", text)
    factor = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
    return round(float(found[1]) * factor[found[2]]) if found else 0


def describe(partition: Partition) -> str:
    """Say in one line what a partition has and limits."""
    nodes = [
        f"{kind.total} nodes ({kind.usable} usable) of {kind.cpus} CPUs and "
        f"{kind.memory_mb / 1024:.1f} GiB" + (f" with {kind.gpus}" if kind.gpus else "")
        for kind in partition.kinds
    ]
    said = ["default"] if partition.is_default else []
    said += [partition.state.lower(), *(nodes or ["no nodes"])]
    said.append(f"time limit {partition.max_time.lower()}")
    if partition.max_nodes not in ("UNLIMITED", "?"):
        said.append(f"at most {partition.max_nodes} nodes a job")
    for what, allowed in (("accounts", partition.accounts), ("QOS", partition.qos)):
        if allowed not in _OPEN_TO_ALL:
            said.append(f"{what} {allowed} only")
    if partition.preemption not in ("OFF", ""):
        said.append(f"preemption: {partition.preemption.lower()}")
    return ", ".join(said)


def chosen(partitions: Sequence[Partition], name: str) -> list[Partition]:
    """Return the partitions that trials would go to: those of a list of names, or the default."""
    names = name.split(",")
    return [p for p in partitions if (p.name in names if name else p.is_default)]


def checks(partitions: Sequence[Partition], *wanted: str) -> list[Check]:
    """Return a line for each partition. Of each list of names that jobs are submitted to (`wanted`;
    "" is the default) all have to be there, and one has to be usable.
    """
    known = {p.name for p in partitions}
    there = ", ".join(p.name for p in partitions) or "none that you may use"
    found, lacking = [], set()
    for name in dict.fromkeys(wanted or ("",)):
        mine = chosen(partitions, name)
        unknown = [one for one in name.split(",") if one and one not in known]
        if unknown or not mine:
            names = ", ".join(map(repr, unknown))
            what = f"there is no partition {names}" if unknown else "there is no default partition"
            said = f"{what}; there are: {there}"
            found.append(missing("partition", said, "give --partition"))
        if not any(map(_is_good, mine)):
            lacking |= {p.name for p in mine}
    for partition in partitions:
        bad = State.MISSING if partition.name in lacking else State.WARNING
        found.append(
            graded(
                State.OK if _is_good(partition) else bad,
                f"partition {partition.name}",
                describe(partition),
                "`sinfo -R` says why nodes are not usable; choose another --partition",
            )
        )
    return found


def _is_good(partition: Partition) -> bool:
    return partition.state == "UP" and partition.usable > 0
