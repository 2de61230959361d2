"""Selects the partition of a job: the first of a profile's [[partitions]] that the job fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcscientist.errors import SiteError
from hpcscientist.records.site import PartitionChoice, Site, SlurmSite

_YEAR_MINUTES = 365 * 24 * 60
_UNITS = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}
_WORDS = ("account", "qos", "constraint", "gres")
_PLACE = ("partition", "account", "qos", "constraint")


@dataclass(frozen=True, slots=True)
class JobNeeds:
    """What a job asks for on its one node. `memory_mb` is its total memory, in MiB."""

    minutes: int
    memory_mb: int
    cpus: int = 1
    gpus: int = 0
    gpu_type: str = ""

    def __str__(self) -> str:
        gpus = f", {self.gpus} {self.gpu_type} GPUs".replace("  ", " ") if self.gpus else ""
        return f"{self.minutes} minutes, {self.memory_mb} MiB, {self.cpus} CPUs{gpus}"


def choose(
    site: Site, need: JobNeeds, fix: str = "[budgets] or [resources] of recipe.toml"
) -> SlurmSite:
    """Return the profile's [slurm] for a job, with the partition that it fits, its QOS and so on.

    `max_minutes` then also respects that partition's limit. Without [[partitions]] this is the
    unchanged [slurm]. If the job needs a kind of GPU, `gres` asks for it. `fix` is where the user
    can ask for less. Raises SiteError if no partition fits, or if `gres` names another kind.
    """
    if not site.partitions:
        return _of_kind(site.slurm, need)
    for row in site.partitions:
        if _fits(row, need) and _names_kind(found := _with(site.slurm, row), need):
            return _of_kind(found, need)
    rows = "; ".join(map(describe, site.partitions))
    raise SiteError(
        "fits-none",
        f"no partition of the site profile takes a job of {need}; there are: {rows}; ask for less "
        f"in {fix}, or add to [[partitions]]",
    )


def of_controller(site: Site) -> SlurmSite:
    """Return [slurm] for the controller job, as [controller] asks for it. Raises SiteError."""
    own = site.controller
    slurm = site.slurm
    if not own.partition:
        need = JobNeeds(own.minutes, own.memory_mb, own.cpus, own.gpus)
        slurm = choose(site, need, "[controller] of the site profile")
    given = {name: value for name in _PLACE if (value := getattr(own, name))}
    return slurm.model_copy(update=given)


def described(slurm: SlurmSite) -> str:
    """Return in words where [slurm] sends a job."""
    given = [f"{name} {value}" for name in _PLACE if (value := getattr(slurm, name))]
    return ", ".join(given) or "the default partition"


def overridden(site: Site, words: Mapping[str, str]) -> Site:
    """Return a profile with the words of the command line in it; empty words change nothing.

    A named partition is the user's choice, so [[partitions]] are then left out.
    """
    given = {name: value for name, value in words.items() if value}
    rows = () if given.get("partition") else site.partitions
    blank = {name: "" for name in _WORDS if name in given}
    return site.model_copy(
        update={
            "slurm": site.slurm.model_copy(update=given),
            "partitions": tuple(row.model_copy(update=blank) for row in rows),
        }
    )


def all_kinds(site: Site) -> tuple[SlurmSite, ...]:
    """Return every variant of [slurm] for jobs: one for each row of [[partitions]]."""
    return tuple(_with(site.slurm, row) for row in site.partitions) or (site.slurm,)


def describe(row: PartitionChoice) -> str:
    """Return a row's name and limits in words."""
    limits = {
        "max_time": row.max_time,
        "max_memory": row.max_memory,
        "max_memory_per_cpu": row.max_memory_per_cpu,
        "max_cpus": row.max_cpus,
    }
    said = [f"{name} {value}" for name, value in limits.items() if value]
    said += [] if row.gpus is None else [f"gpus {row.gpus}"]
    return " ".join([row.name or "the default", *([f"({', '.join(said)})"] if said else [])])


def minutes(text: str | int) -> int:
    """Return whole minutes of a time as Slurm writes it; UNLIMITED is a year.

    `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours`, and with minutes, seconds.
    """
    days, dash, rest = str(text).rpartition("-")
    try:
        parts = [int(part) for part in rest.split(":")]
        whole = int(days or 0) * 1440
    except ValueError:
        return _YEAR_MINUTES
    if dash:
        return whole + parts[0] * 60 + (parts[1] if len(parts) > 1 else 0)
    return parts[0] if len(parts) < 3 else parts[0] * 60 + parts[1]


def mebibytes(text: str | int) -> int:
    """Return MiB of a memory as sbatch reads it: a number of MiB, or one with K, M, G or T."""
    said = str(text)
    return int(int(said[:-1]) * _UNITS[said[-1]]) if said[-1] in _UNITS else int(said)


def _fits(row: PartitionChoice, need: JobNeeds) -> bool:
    limits = (
        (minutes(row.max_time), need.minutes),
        (mebibytes(row.max_memory), need.memory_mb),
        (mebibytes(row.max_memory_per_cpu), -(-need.memory_mb // need.cpus)),
        (row.max_cpus, need.cpus),
    )
    if any(most and asked > most for most, asked in limits):
        return False
    return row.gpus is None or (need.gpus <= row.gpus and bool(need.gpus) == bool(row.gpus))


def _names_kind(slurm: SlurmSite, need: JobNeeds) -> bool:
    """Return whether `gres` asks for the kind of GPU that the job needs, or for any kind."""
    kind = slurm.gres.removeprefix("gpu:").partition(":{gpus}")[0]
    return not (need.gpus and need.gpu_type) or kind in ("{gpus}", need.gpu_type)


def _of_kind(slurm: SlurmSite, need: JobNeeds) -> SlurmSite:
    if not _names_kind(slurm, need):
        raise SiteError(
            "gpu-type",
            f"recipe.toml needs GPUs of the kind {need.gpu_type}, and the site profile asks for "
            f"gres = {slurm.gres!r}; change resources.gpu_type or slurm.gres",
        )
    if not (need.gpus and need.gpu_type):
        return slurm
    return slurm.model_copy(update={"gres": f"gpu:{need.gpu_type}:{{gpus}}"})


def _with(slurm: SlurmSite, row: PartitionChoice) -> SlurmSite:
    bounds = [most for most in (slurm.max_minutes, minutes(row.max_time)) if most]
    given = {name: value for name in _WORDS if (value := getattr(row, name))}
    return slurm.model_copy(
        update={
            **given,
            "partition": row.name or slurm.partition,
            "max_minutes": min(bounds, default=0),
            "extra": (*slurm.extra, *row.extra),
        }
    )
