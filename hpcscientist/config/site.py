"""Reads a launch's site profile: a TOML file (examples in slurm/sites), below the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hpcscientist.config import partitions, sbatch
from hpcscientist.config.layers import Value, defaults, known, read_file, validated
from hpcscientist.config.settings import SlurmOverrides
from hpcscientist.errors import ConfigError, SiteError
from hpcscientist.files.handed import expanded
from hpcscientist.records.site import PartitionChoice, Site

# In order of precedence, as in sbatch. sacct reads neither; other commands read only the first.
_CLUSTER_VARIABLES = ("SLURM_CLUSTERS", "SBATCH_CLUSTERS")


def load_site(path: str, folder: Path, overrides: SlurmOverrides | None = None) -> Site:
    """Return the site profile in a file, "" for the defaults; see `resolve_site`."""
    return resolve_site(path, folder, overrides)[0]


def resolve_site(
    path: str,
    folder: Path,
    overrides: SlurmOverrides | None = None,
    environment: Mapping[str, str] = os.environ,
) -> tuple[Site, list[Value]]:
    """Merge a site profile; return it, and each value with its origin.

    `path` is relative to `folder`, "" means no file; `overrides` that are not "" take precedence.
    If sbatch would take a cluster from the environment, the profile takes it too, so that every
    command addresses that cluster. Raises ConfigError naming file and key, with the nearest valid
    one, and SiteError.
    """
    keys = defaults(Site)
    values = {key: Value(key, default, "default") for key, default in keys.items()}
    if path:
        file = folder / expanded(path)
        try:
            values |= read_file(file, keys)
        except FileNotFoundError as error:
            raise ConfigError(
                f"{file}: there is no such site profile; copy one from slurm/sites"
            ) from error
    rows = values["partitions"]
    for number, row in enumerate(rows.value if isinstance(rows.value, list) else ()):
        for name in row if isinstance(row, dict) else ():
            known(name, PartitionChoice.model_fields, f"{rows.origin}: [[partitions]] {number + 1}")
    given = {k: v for k, v in (overrides or SlurmOverrides()).model_dump().items() if v}
    site = partitions.overridden(validated(Site, values), given)
    for name, word in given.items():
        values[f"slurm.{name}"] = Value(f"slurm.{name}", word, f"setting slurm.{name}")
    if rows.value and not site.partitions:
        values[rows.key] = Value(rows.key, (), "setting slurm.partition")
    try:
        cluster = _check(site)
    except SiteError as error:
        raise SiteError(error.code, f"{file}: {error}" if path else str(error)) from error
    for variable in _CLUSTER_VARIABLES:
        if environment.get(variable) and not cluster:
            cluster = environment[variable]
            site = site.model_copy(
                update={"slurm": site.slurm.model_copy(update={"cluster": cluster})}
            )
            key = "slurm.cluster"
            values[key] = Value(key, cluster, f"variable {variable}")
    return site, [values[key] for key in keys]


def _check(site: Site) -> str:
    """Return the cluster of a profile. Raises SiteError for options that it must not contain."""
    for number, row in enumerate(site.partitions, start=1):
        where = f"[[partitions]] {number}"
        found = sbatch.extra_of(row.extra, where, memory=site.slurm.memory)
        if found.cluster:
            raise SiteError("clusters", f"{where}: one cluster has them all; name it in [slurm]")
    for gres in (site.slurm.gres, *(row.gres for row in site.partitions if row.gres)):
        if site.slurm.gpu_option != "gres" and not gres.startswith("gpu:"):
            raise SiteError(
                "gpu_option", f"gres = {gres!r}: begin it with gpu: where gpu_option is not gres"
            )
    sbatch.extra_of_trials(site.slurm)
    sbatch.extra_of_controller(site)
    return sbatch.cluster_of(site.slurm)
