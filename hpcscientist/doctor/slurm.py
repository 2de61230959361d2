"""Checks of the site's Slurm by its own commands; nothing is submitted."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpcscientist.config.partitions import all_kinds
from hpcscientist.doctor.check import CheckState, DoctorCheck, graded, missing, ok, warning
from hpcscientist.errors import SchedulerError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.limits import SlurmLimits, read_limits
from hpcscientist.records.site import Site, SlurmSite

# Partitions, from `scontrol show partition` and `sinfo`.

# One row per group of equal nodes: partition, nodes as allocated/idle/other/total, CPUs and
# MiB of a node, and its generic resources.
SINFO = "--format=%R|%F|%c|%m|%G"
_OPEN_TO_ALL = ("", "ALL", "(null)")


@dataclass(frozen=True, slots=True)
class NodeKind:
    """A group of equal nodes of a partition. `usable` counts those not down or drained."""

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
        """The number of nodes that are neither down nor drained."""
        return sum(kind.usable for kind in self.kinds)

    @property
    def gpus(self) -> str:
        """The GPUs of its nodes, in Slurm's words; "" for none."""
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
    """Return a count as Slurm writes it: 2.5K is 2560, and 32+ is 32 or more."""
    found = re.match(r"([\d.]+)([KMG]?)", text)
    factor = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
    return round(float(found[1]) * factor[found[2]]) if found else 0


def describe(partition: Partition) -> str:
    """Return a partition's nodes and limits as one line."""
    nodes = [
        f"{kind.total} nodes ({kind.usable} usable) of {kind.cpus} CPUs and "
        f"{kind.memory_mb / 1024:.1f} GiB" + (f" with {kind.gpus}" if kind.gpus else "")
        for kind in partition.kinds
    ]
    said = ["default"] if partition.is_default else []
    said += [partition.state.lower(), *(nodes or ["no nodes"])]
    said.append(f"time limit {partition.max_time.lower()}")
    if partition.max_nodes not in ("UNLIMITED", "?"):
        said.append(f"at most {partition.max_nodes} nodes per job")
    for what, allowed in (("accounts", partition.accounts), ("QOS", partition.qos)):
        if allowed not in _OPEN_TO_ALL:
            said.append(f"{what} {allowed} only")
    if partition.preemption not in ("OFF", ""):
        said.append(f"preemption: {partition.preemption.lower()}")
    return ", ".join(said)


def chosen(partitions: Sequence[Partition], name: str) -> list[Partition]:
    """Return the partitions of a comma-separated list of names; for "" the default partition."""
    names = name.split(",")
    return [p for p in partitions if (p.name in names if name else p.is_default)]


def partition_checks(partitions: Sequence[Partition], *wanted: str) -> list[DoctorCheck]:
    """Return a check for each partition.

    `wanted` are the lists of names that jobs are submitted to ("" is the default partition). All
    names of a list must exist, and at least one must be usable.
    """
    known = {p.name for p in partitions}
    there = ", ".join(p.name for p in partitions) or "none that you can use"
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
        bad = CheckState.MISSING if partition.name in lacking else CheckState.WARNING
        found.append(
            graded(
                CheckState.OK if _is_good(partition) else bad,
                f"partition {partition.name}",
                describe(partition),
                "`sinfo -R` shows why nodes are not usable; choose another --partition",
            )
        )
    return found


def _is_good(partition: Partition) -> bool:
    return partition.state == "UP" and partition.usable > 0


_ASSOCIATIONS = "format=Account,QOS"
_NO_LIMIT = 10**8


def checks(slurm: Slurm, profile: Site) -> Iterator[DoctorCheck]:
    """Yield the checks of a Slurm whose commands are on PATH."""
    site, kinds = profile.slurm, all_kinds(profile)
    try:
        version = slurm.run("sbatch", "--version").strip()
        yield ok("slurm", version)
        config = config_pairs(slurm.run("scontrol", "show", "config"))
    except SchedulerError as error:
        yield missing(
            "slurm controller",
            f"no answer: {error}",
            "wait for it, ask your administrators, or use --backend local",
        )
        return
    yield ok("slurm controller", f"{config.get('ClusterName', 'the cluster')} answers")
    yield accounting(slurm, site, config)
    yield from _associations(slurm, kinds, config)
    yield memory(site, config)
    try:
        yield from partition_checks(
            parse(
                slurm.run("scontrol", "show", "partition"),
                slurm.run("sinfo", "--noheader", SINFO),
            ),
            *(kind.partition for kind in kinds),
        )
    except SchedulerError as error:
        yield missing("partition", f"cannot be listed: {error}", "try again, or ask your site")
    yield from (_limits(slurm, kind) for kind in kinds)


def config_pairs(text: str) -> dict[str, str]:
    """Return the `Key = value` lines of `scontrol show config`."""
    pairs = re.findall(r"^(\w+)\s*= ?(.*)$", text, re.MULTILINE)
    return {key: value.strip() for key, value in pairs}


def accounting(slurm: Slurm, site: SlurmSite, config: Mapping[str, str]) -> DoctorCheck:
    """Return the check that accounting exists and answers."""
    name, kind = "slurm accounting", config.get("AccountingStorageType", "")
    if not kind.endswith("slurmdbd"):
        found = "none: the end of a job is read from the queue and from the job's own files"
        if site.accounting == "yes":
            return missing(name, found, 'set accounting = "auto" in the site profile\'s [slurm]')
        return warning(name, found, "nothing is needed; campaigns run without it")
    try:
        slurm.run("sacct", "--noheader", "--allocations", "--format=JobID", "--jobs=1")
    except SchedulerError as error:
        return warning(
            name,
            f"slurmdbd does not answer: {error}",
            "campaigns run without it; tell your administrators",
        )
    return ok(name, "slurmdbd answers")


def _associations(
    slurm: Slurm, kinds: Iterable[SlurmSite], config: Mapping[str, str]
) -> Iterator[DoctorCheck]:
    if not config.get("AccountingStorageType", "").endswith("slurmdbd"):
        return
    try:
        text = slurm.run(
            "sacctmgr",
            *("--noheader", "--parsable2", "show", "associations"),
            *(f"user={getpass.getuser()}", _ASSOCIATIONS),
        )
    except SchedulerError:
        return  # reported by `accounting`, or hidden by the site: then sbatch will report it
    enforced = config.get("AccountingStorageEnforce", "")
    yield from dict.fromkeys(
        check for site in kinds for check in associations(text, site, enforced)
    )


def associations(text: str, site: SlurmSite, enforced: str) -> Iterator[DoctorCheck]:
    """Yield the checks that the user may use the requested account and QOS.

    `text` has one line `account|qos,qos` per association; `enforced` is AccountingStorageEnforce.
    """
    rows = [line.split("|") for line in text.splitlines() if line.count("|") == 1]
    accounts = sorted({row[0] for row in rows if row[0]})
    known = ", ".join(accounts) or "none"
    must = bool({"associations", "limits", "qos", "safe"} & set(enforced.lower().split(",")))
    if site.account and site.account not in accounts and (must or accounts):
        yield missing(
            "slurm account", f"{site.account!r} is not one of yours: {known}", "give --account"
        )
    elif not accounts and must:
        yield missing(
            "slurm account", "you have none", "ask your administrators for an association"
        )
    else:
        yield ok("slurm account", f"{site.account or 'your default'}; yours: {known}")
    mine = [row for row in rows if not site.account or row[0] == site.account]
    allowed = sorted({name for row in mine for name in row[1].split(",") if name})
    if site.qos and allowed and site.qos not in allowed:
        found = f"{site.qos!r} is not open to you: {', '.join(allowed)}"
        yield missing("slurm qos", found, "give --qos")
    elif allowed:
        yield ok("slurm qos", f"{site.qos or 'your default'}; open to you: {', '.join(allowed)}")


def memory(site: SlurmSite, config: Mapping[str, str]) -> DoctorCheck:
    """Return the check that Slurm allocates memory; otherwise `--mem` has no effect."""
    name, kind = "slurm memory", config.get("SelectTypeParameters", "")
    if "MEMORY" in kind.upper():
        return ok(name, f"is allocated by Slurm ({kind}); requested by {site.memory}")
    return warning(
        name,
        f"is not allocated by Slurm ({kind or 'no SelectTypeParameters'}): only workers limit it",
        "nothing is needed; share nodes with care",
    )


def _limits(slurm: Slurm, site: SlurmSite) -> DoctorCheck:
    try:
        return limits(read_limits(slurm, site), site.partition)
    except SchedulerError as error:
        return missing("slurm limits", f"cannot be read: {error}", "give --partition, or try again")


def limits(found: SlurmLimits, partition: str = "") -> DoctorCheck:
    """Return a check that shows the limits of arrays, queue and time, for jobs of a partition."""
    submit = f"{found.max_submit}" if found.max_submit < _NO_LIMIT else "any number"
    return ok(
        "slurm limits",
        f"arrays of at most {found.max_array} tasks (MaxArraySize), {submit} of your jobs in the "
        f"queue, {found.max_minutes} minutes per job" + (f" in {partition}" if partition else ""),
    )
