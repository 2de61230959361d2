"""Trials as steps of the job that drives the campaign (`serving.trials_inside`)."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.files.rundir import RunPaths
from hpcscientist.launching.serving import colocated_trials
from hpcscientist.launching.serving.sharing import Engines
from hpcscientist.launching.sites.cluster import Cluster
from hpcscientist.ports.backend import Backend
from hpcscientist.recipe.schema import Resources


@dataclass(frozen=True, slots=True)
class Allocation(Cluster):
    """A cluster's nodes that this driver holds already, by the number of its job.

    `resources`: what each trial asks for; `engines`: what serving has of each node.
    """

    job_id: str
    resources: Resources
    engines: Engines

    def open(self, paths: RunPaths, campaign_id: str, slots: int) -> Backend:
        """Return the backend; see `TrialSite`. The nodes alone say how many run at once."""
        del slots
        return colocated_trials.open_backend(
            *(paths, self.profile, campaign_id), self.job_id, self.resources, self.engines
        )
