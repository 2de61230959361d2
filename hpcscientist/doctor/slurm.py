"""What this site's Slurm is and allows, asked from its commands; nothing is submitted."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterable, Iterator, Mapping

from hpcscientist.config.partitions import all_kinds
from hpcscientist.doctor import partitions
from hpcscientist.doctor.check import Check, missing, ok, warning
from hpcscientist.errors import SchedulerError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.limits import SlurmLimits, read_limits
from hpcscientist.records.site import Site, SlurmSite

_ASSOCIATIONS = "format=Account,QOS"
_NO_LIMIT = 10**8


def checks(slurm: Slurm, profile: Site) -> Iterator[Check]:
    """Yield what can be said of Slurm where its commands are on PATH."""
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
        yield from partitions.checks(
            partitions.parse(
                slurm.run("scontrol", "show", "partition"),
                slurm.run("sinfo", "--noheader", partitions.SINFO),
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


def accounting(slurm: Slurm, site: SlurmSite, config: Mapping[str, str]) -> Check:
    """Return whether accounting is there and answers."""
    name, kind = "slurm accounting", config.get("AccountingStorageType", "")
    if not kind.endswith("slurmdbd"):
        found = "none: what became of a job is read from the queue and from its own files"
        if site.accounting == "yes":
            return missing(name, found, 'set accounting = "auto" in the site profile\'s [slurm]')
        return warning(name, found, "nothing needs doing; campaigns run without it")
    try:
        slurm.run("sacct", "--noheader", "--allocations", "--format=JobID", "--jobs=1")
    except SchedulerError as error:
        return warning(
            name,
            f"slurmdbd does not answer: {error}",
            "campaigns go on without it; tell your administrators",
        )
    return ok(name, "slurmdbd answers")


def _associations(
    slurm: Slurm, kinds: Iterable[SlurmSite], config: Mapping[str, str]
) -> Iterator[Check]:
    if not config.get("AccountingStorageType", "").endswith("slurmdbd"):
        return
    try:
        text = slurm.run(
            "sacctmgr",
            *("--noheader", "--parsable2", "show", "associations"),
            *(f"user={getpass.getuser()}", _ASSOCIATIONS),
        )
    except SchedulerError:
        return  # said above, or hidden by the site: sbatch will tell
    enforced = config.get("AccountingStorageEnforce", "")
    yield from dict.fromkeys(
        check for site in kinds for check in associations(text, site, enforced)
    )


def associations(text: str, site: SlurmSite, enforced: str) -> Iterator[Check]:
    """Yield whether the account and the QOS asked for are the user's.

    `text`: `account|qos,qos` a line; `enforced`: AccountingStorageEnforce.
    """
    rows = [line.split("|") for line in text.splitlines() if line.count("|") == 1]
    accounts = sorted({row[0] for row in rows if row[0]})
    known = ", ".join(accounts) or "none"
    must = bool({"associations", "limits", "qos", "safe"} & set(enforced.lower().split(",")))
    if site.account and site.account not in accounts and (must or accounts):
        yield missing("slurm account", f"{site.account!r} is not yours: {known}", "give --account")
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


def memory(site: SlurmSite, config: Mapping[str, str]) -> Check:
    """Return whether Slurm hands memory out, which `--mem` needs to mean something."""
    name, kind = "slurm memory", config.get("SelectTypeParameters", "")
    if "MEMORY" in kind.upper():
        return ok(name, f"is handed out ({kind}); asked for by {site.memory}")
    return warning(
        name,
        f"is not handed out ({kind or 'no SelectTypeParameters'}): only workers bound it",
        "nothing needs doing; share nodes with care",
    )


def _limits(slurm: Slurm, site: SlurmSite) -> Check:
    try:
        return limits(read_limits(slurm, site), site.partition)
    except SchedulerError as error:
        return missing("slurm limits", f"cannot be read: {error}", "give --partition, or try again")


def limits(found: SlurmLimits, partition: str = "") -> Check:
    """Return what an array and the queue may hold, for jobs of a partition."""
    submit = f"{found.max_submit}" if found.max_submit < _NO_LIMIT else "any number"
    return ok(
        "slurm limits",
        f"arrays of at most {found.max_array} tasks (MaxArraySize), {submit} of your jobs in the "
        f"queue, {found.max_minutes} minutes a job" + (f" in {partition}" if partition else ""),
    )
