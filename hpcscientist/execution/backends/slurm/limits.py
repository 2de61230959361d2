"""The limits of this site's Slurm: read from Slurm, overridden by the site profile."""

from __future__ import annotations

import contextlib
import getpass
import re
from dataclasses import dataclass

from hpcscientist.config.partitions import minutes
from hpcscientist.errors import SchedulerError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.records.site import SlurmSite

_NO_MAXIMUM = 10**9
# Seconds until limits are read again (rarely: four commands), and after Slurm did not answer.
READ_AGAIN_S, ASK_AGAIN_S = 600.0, 60.0
# A database that hangs must not delay submission; sbatch reports when a limit is reached.
_DATABASE_S = 15.0


@dataclass(frozen=True, slots=True)
class SlurmLimits:
    """Limits of arrays and jobs.

    `max_array`: tasks of one array. `max_submit`: the user's jobs and array tasks in the queue at
    once. `max_minutes`: the partition's maximum time limit, of several partitions the lowest.
    `nodes` and `cpus`: the partitions' total (0: unknown). `accounting`: whether sacct can be used.
    """

    version: str
    max_array: int
    max_submit: int
    max_minutes: int
    nodes: int
    accounting: bool
    cpus: int = 0


def read_limits(slurm: Slurm, site: SlurmSite) -> SlurmLimits:
    """Ask Slurm for its limits.

    Raises SchedulerError if the controller does not answer or knows no such partition.
    """
    config = _pairs(slurm.run("scontrol", "show", "config"))
    parts = _partitions(slurm, site.partition)
    nodes, cpus = _size(slurm, parts)
    accounting = _accounting(site, config)
    # With MaxArraySize n, indices go up to n-1. The controller holds at most MaxJobCount jobs.
    array = int(config.get("MaxArraySize", "1001") or 1001) - 1
    jobs = int(config.get("MaxJobCount", "10000") or 10000)
    submit = min(jobs, _submit_limit(slurm, site) if accounting else _NO_MAXIMUM)
    return SlurmLimits(
        version=config.get("SLURM_VERSION", "?"),
        max_array=max(1, site.max_array or array),
        max_submit=max(1, site.max_submit or submit),
        max_minutes=min(
            *(minutes(part.get("MaxTime", "UNLIMITED")) for part in parts),
            *(site.max_minutes or minutes("UNLIMITED"), minutes("UNLIMITED")),
        ),
        nodes=nodes,
        accounting=accounting,
        cpus=cpus,
    )


class KnownLimits:
    """The limits that Slurm reported last.

    A site may change them while campaigns run. So they are read again from time to time, and at
    once if a refusal casts doubt on them.
    """

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm
        self._known: dict[SlurmSite, SlurmLimits] = {}
        self._due: dict[SlurmSite, float] = {}

    def last(self, site: SlurmSite) -> SlurmLimits | None:
        """Return the known limits; None before the first answer."""
        return self._known.get(site)

    def any(self) -> SlurmLimits | None:
        """Return any partition's limits, for what all share; None before the first answer."""
        return next(iter(self._known.values()), None)

    def are_due(self, site: SlurmSite, now: float) -> bool:
        """Return whether they must be read (again). `now`: seconds of the event loop's clock."""
        return site not in self._known or now >= self._due[site]

    def read(self, site: SlurmSite, now: float) -> SlurmLimits:
        """Ask Slurm; if it does not answer, return the limits known before.

        Raises SchedulerError if none are known yet.
        """
        known = self._known.get(site)
        try:
            known, pause_s = read_limits(self._slurm, site), READ_AGAIN_S
        except SchedulerError:
            if known is None:
                raise
            pause_s = ASK_AGAIN_S
        self._known[site], self._due[site] = known, now + pause_s
        return known


def _partitions(slurm: Slurm, names: str) -> list[dict[str, str]]:
    """Return the partitions of a list of names, or the default one. Raises SchedulerError."""
    text = slurm.run("scontrol", "show", "partition")
    known = [_pairs(block) for block in text.split("\n\n") if "PartitionName=" in block]
    if not names:
        return [p for p in known if p.get("Default") == "YES"] or known[:1]
    wanted = names.split(",")
    return [p for p in known if p["PartitionName"] in wanted]


def _size(slurm: Slurm, partitions: list[dict[str, str]]) -> tuple[int, int]:
    """Return how many nodes and CPUs partitions have in total. Raises SchedulerError.

    For several partitions, nodes are listed by name, so that a node in all of them counts once.
    """
    if len(partitions) < 2:
        totals = ("TotalNodes", "TotalCPUs")
        nodes, cpus = (sum(int(p.get(key, "0") or 0) for p in partitions) for key in totals)
        return nodes, cpus
    names = ",".join(part["PartitionName"] for part in partitions)
    text = slurm.run("sinfo", "--noheader", "--Node", f"--partition={names}", "--format=%N|%c")
    found = dict(line.split("|") for line in text.split() if line.count("|") == 1)
    return len(found), sum(int(count) for count in found.values() if count.isdigit())


def _accounting(site: SlurmSite, config: dict[str, str]) -> bool:
    if site.accounting != "auto":
        return site.accounting == "yes"
    return config.get("AccountingStorageType", "").endswith("slurmdbd")


def _submit_limit(slurm: Slurm, site: SlurmSite) -> int:
    """Return the smallest MaxSubmitJobs of the user's associations and the QOS.

    If the accounting daemon does not answer, no limit is known: sbatch will report when it is
    reached.
    """
    user = getpass.getuser()
    found: list[int] = []
    with contextlib.suppress(SchedulerError):
        text = slurm.run(
            "sacctmgr",
            *("--noheader", "--parsable2", "show", "associations", f"user={user}"),
            "format=Account,Partition,MaxSubmitJobs,DefaultQOS",
            at_most_s=_DATABASE_S,
        )
        rows = [line.split("|") for line in text.splitlines() if line.count("|") == 3]
        mine = [row for row in rows if not site.account or row[0] == site.account]
        found += [int(row[2]) for row in mine if row[2].isdigit()]
        defaults = {row[3] for row in mine if row[3]}
        names = [site.qos] if site.qos else sorted(defaults)
        if names:
            text = slurm.run(
                "sacctmgr",
                *("--noheader", "--parsable2", "show", "qos", *names),
                "format=Name,MaxSubmitJobsPerUser,MaxSubmitJobsPerAccount",
                at_most_s=_DATABASE_S,
            )
            for line in text.splitlines():
                found += [int(field) for field in line.split("|")[1:] if field.isdigit()]
    return min(found, default=_NO_MAXIMUM)


def _pairs(text: str) -> dict[str, str]:
    """Return the `Key=Value` and `Key = value` pairs of a text."""
    spaced = dict(re.findall(r"^(\w+)\s+= (.*)$", text, re.MULTILINE))
    return {**dict(re.findall(r"(\w+)=(\S*)", text)), **{k: v.strip() for k, v in spaced.items()}}
