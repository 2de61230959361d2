"""Changes the site profile of an existing campaign, which does not affect its results."""

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
    """Submit the campaign's further trials with another profile or other Slurm options.

    `site` is a profile's file, "" to keep the campaign's; `overrides` take precedence over it.
    Jobs that are already queued stay as they are. Raises UsageError for a campaign without Slurm,
    ConfigError, and CampaignBusy while a driver runs.
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
