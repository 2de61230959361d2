"""Another site profile for a campaign that exists: it is no part of what is being found out."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.config import partitions
from hpcscientist.config.settings import SlurmOverrides
from hpcscientist.config.site import load_site
from hpcscientist.errors import CampaignBusy, UsageError
from hpcscientist.files.lock import named
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.lock import read_holder


def change_site(paths: RunPaths, site: str, overrides: SlurmOverrides, folder: Path) -> None:
    """Have the campaign's further trials submitted with another profile, or with other words.

    `site` is a profile's file, "" to keep the campaign's; `overrides` beat it. What is queued
    already stays as it is. Raises UsageError for a campaign without Slurm, ConfigError,
    CampaignBusy while a driver runs.
    """
    config = frozen.read(paths)
    if config.backend != "slurm":
        raise UsageError(f"{paths.root}: its trials run on one machine; leave those options out")
    holder = read_holder(paths.lock)
    if holder is not None and holder["alive"]:
        raise CampaignBusy(
            f"{paths.root}: {named(holder)} drives it; stop it with `hpcsci cancel` before its "
            "site profile is changed"
        )
    chosen = load_site(site, folder) if site else config.site
    moved = partitions.overridden(chosen, overrides.model_dump())
    frozen.write(paths, config.model_copy(update={"site": moved}))
