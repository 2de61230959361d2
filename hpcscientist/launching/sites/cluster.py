"""Trials as array tasks in a cluster's queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hpcscientist.campaign.specs import trial_limits
from hpcscientist.config.partitions import choose, described
from hpcscientist.config.settings import Settings
from hpcscientist.errors import UsageError
from hpcscientist.execution.backends.slurm.backend import SlurmBackend
from hpcscientist.execution.backends.slurm.batches import need_of_limits
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.sandbox import isolation
from hpcscientist.files.rundir import RunPaths
from hpcscientist.launching.sites.site import Home
from hpcscientist.ports.backend import Backend
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.site import BackendKind, Site, SlurmSite
from hpcscientist.records.trial import Isolation
from hpcscientist.worker.element import MODULE


@dataclass(frozen=True, slots=True)
class Cluster:
    """See `sites.site.TrialSite`. What a job may ask for is Slurm's to say, when it is asked."""

    why: str
    profile: Site
    kind: ClassVar[BackendKind] = "slurm"

    def home(self, settings: Settings) -> Home:
        """Return what nodes find on the file system that they share with the driver."""
        return Home.of(settings)

    def isolation(self, image: str | None) -> Isolation:
        """Return what an image gives: its compute nodes alone need Apptainer.

        One that lacks it then fails its trials as a machine.
        """
        return isolation.choose(image, elsewhere=True)

    def require(self, isolation: Isolation) -> None:
        """Raise UsageError where no job can be submitted from here."""
        del isolation
        if not Slurm.of(self.profile).is_there():
            raise UsageError(
                "there is no sbatch on PATH; load your site's Slurm module, or use --backend local"
            )

    def check(self, spec: RecipeSpec) -> tuple[str, ...]:
        """Say which of the profile's [[partitions]] each budget goes to; nothing without them.

        What else there is to say Slurm says, which `launching.rendering.check` has look at the
        very scripts. Raises SiteError where no partition takes a trial.
        """
        if not self.profile.partitions:
            return ()
        budgets: dict[SlurmSite, list[str]] = {}
        for name in spec.budgets.names:
            need = need_of_limits(self.profile.slurm, trial_limits(spec, name))
            budgets.setdefault(choose(self.profile, need), []).append(name)
        return tuple(f"jobs of {', '.join(n)}: {described(site)}" for site, n in budgets.items())

    def slots(self, spec: RecipeSpec) -> None:
        """Return None: its queue takes what a campaign gives it."""
        del spec

    def open(self, paths: RunPaths, campaign_id: str, slots: int) -> Backend:
        """Return the backend; see `TrialSite`."""
        return SlurmBackend(paths, self.profile, campaign_id, MODULE, slots=slots)
