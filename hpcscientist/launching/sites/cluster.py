"""Sites on a cluster: trials as array tasks in its queue, or as steps of the controller job."""

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
from hpcscientist.launching.serving import colocated_trials
from hpcscientist.launching.serving.sharing import Engines
from hpcscientist.launching.sites.site import Home
from hpcscientist.models.serving.fitting.memory import memory_by_name
from hpcscientist.ports import Backend
from hpcscientist.recipe.schema import RecipeSpec, Resources
from hpcscientist.records.site import BackendKind, Site, SlurmSite
from hpcscientist.records.trial import Budget, Isolation
from hpcscientist.worker.element import MODULE


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Slurm cluster; see `sites.site.TrialSite`. Slurm itself checks what jobs may ask for."""

    why: str
    profile: Site
    kind: ClassVar[BackendKind] = "slurm"

    def home(self, settings: Settings) -> Home:
        """Return the home on the file system that nodes share with the driver."""
        return Home.of(settings)

    def isolation(self, image: str | None) -> Isolation:
        """Return the isolation with an image; only compute nodes need Apptainer.

        Trials on a node without Apptainer fail as machine failures.
        """
        return isolation.choose(image, elsewhere=True)

    def require(self, isolation: Isolation) -> None:
        """Raise UsageError if no job can be submitted from this machine."""
        del isolation
        if not Slurm.of(self.profile).is_there():
            raise UsageError(
                "there is no sbatch on PATH; load your site's Slurm module, or use --backend local"
            )

    def check(self, spec: RecipeSpec) -> tuple[str, ...]:
        """Return which of the profile's [[partitions]] each budget uses, and a note on small GPUs.

        Slurm checks the rest: see `launching.launch_plan.check`. Raises SiteError when no partition
        accepts a trial, and UsageError when GPUs are certainly too small.
        """
        said = self._small_gpus(spec)
        if not self.profile.partitions:
            return said
        budgets: dict[SlurmSite, list[str]] = {}
        for name in spec.budgets.names:
            need = need_of_limits(self.profile.slurm, trial_limits(spec, name))
            budgets.setdefault(choose(self.profile, need), []).append(name)
        jobs = (f"jobs of {', '.join(n)}: {described(site)}" for site, n in budgets.items())
        return (*said, *jobs)

    def _small_gpus(self, spec: RecipeSpec) -> tuple[str, ...]:
        wanted = spec.resources.gpu_memory_mb
        if not wanted:
            return ()
        need = need_of_limits(self.profile.slurm, trial_limits(spec, Budget.FULL))
        gres = choose(self.profile, need).gres
        kind = gres.removeprefix("gpu:").partition(":{gpus}")[0]
        known = memory_by_name(kind)
        if known is None:
            return (f"GPUs need {wanted} MiB each; {gres} does not show what they have",)
        if known.mb >= wanted:
            return ()
        if known.is_sure:
            raise UsageError(
                f"recipe {spec.name}: resources.gpu_memory_mb asks for {wanted}, and {kind} has "
                f"{known.mb}; name a larger kind in resources.gpu_type or slurm.gres"
            )
        return (f"GPUs need {wanted} MiB each; the smallest {kind} has {known.mb}",)

    def slots(self, spec: RecipeSpec) -> None:
        """Return None: the queue takes all trials of a campaign."""
        del spec

    def open(self, paths: RunPaths, campaign_id: str, slots: int) -> Backend:
        """Return the backend; see `TrialSite`."""
        return SlurmBackend(paths, self.profile, campaign_id, MODULE, slots=slots)


# Trials as steps of the job that drives the campaign (`serving.trials_inside`).


@dataclass(frozen=True, slots=True)
class DriverAllocation(Cluster):
    """The nodes of the controller job that this driver runs in.

    `resources` is what each trial asks for, `engines` the share of each node for model servers.
    """

    job_id: str
    resources: Resources
    engines: Engines

    def open(self, paths: RunPaths, campaign_id: str, slots: int) -> Backend:
        """Return the backend; see `TrialSite`. Only the nodes limit how many trials run at once."""
        del slots
        return colocated_trials.open_backend(
            *(paths, self.profile, campaign_id), self.job_id, self.resources, self.engines
        )
