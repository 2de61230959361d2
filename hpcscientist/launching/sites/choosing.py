"""Which site a campaign's trials run on: at launch, and by what was frozen then."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from hpcscientist.config.sbatch import cluster_of
from hpcscientist.config.settings import Settings
from hpcscientist.config.site import load_site
from hpcscientist.errors import UsageError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.launching.sites.cluster import Cluster
from hpcscientist.launching.sites.machine import ThisMachine
from hpcscientist.launching.sites.site import TrialSite
from hpcscientist.records.site import BackendKind, Site
from hpcscientist.system import plugins

# Asking whether Slurm is here must not hold a launch up.
_PING_S = 10.0
OURS = ("local", "slurm")


def choose(settings: Settings, folder: Path) -> TrialSite:
    """Return the site that settings ask for, read from a working directory.

    Asks Slurm's controller at most once, and only for `--backend auto`. Raises ConfigError (site
    profile) and UsageError when Slurm is wanted and not there, or a backend that nobody has.
    """
    profile = load_site(settings.site, folder, settings.slurm)
    if settings.backend not in ("auto", *OURS):
        return _other(settings.backend, profile, settings)
    here, most = ThisMachine, settings.local.slots
    if settings.backend == "local":
        return here("as --backend says", profile, most)
    slurm = Slurm(_PING_S, cluster_of(profile.slurm))
    wanted = "--backend slurm" if settings.backend == "slurm" else "--site" * bool(settings.site)
    if wanted and not slurm.is_there():
        raise UsageError(
            f"{wanted}: there is no sbatch on PATH; load your site's Slurm module, or use "
            "--backend local"
        )
    if wanted:
        return Cluster(f"as {wanted} says", profile)
    if not slurm.is_there():
        return here("this machine has no Slurm", profile, most)
    if not slurm.answers():
        why = "Slurm is installed here, but its controller does not answer"
        return here(why, profile, most)
    return Cluster("its controller answers", profile)


def of(config: CampaignConfig) -> TrialSite:
    """Return the site that a campaign was launched on."""
    why = "as at launch"
    if config.backend not in OURS:
        return _other(config.backend, config.site, config.settings)
    if config.backend == "local":
        return ThisMachine(why, config.site, config.settings.local.slots)
    return Cluster(why, config.site)


def _other(backend: BackendKind, profile: Site, settings: Settings) -> TrialSite:
    """Return the site of a backend that another installed package has: its entry point in the group
    `hpcscientist.backends` is called with the site's profile and the settings.
    """
    found = plugins.load("backends", frozenset(OURS))
    if backend not in found:
        names = ("auto", *OURS, *found)
        near = get_close_matches(backend, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
        raise UsageError(f"--backend: there is no backend {backend!r}; {hint}")
    site: TrialSite = found[backend].value(profile, settings)
    return site
