"""The driver's own machine as a site: trials are local processes."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import ClassVar

from hpcscientist.config.settings import Settings
from hpcscientist.errors import UsageError
from hpcscientist.execution.backends.local import LocalBackend
from hpcscientist.execution.backends.slots import memory_mb
from hpcscientist.execution.sandbox import isolation
from hpcscientist.files.rundir import RunPaths
from hpcscientist.launching.serving.nodes import gpu_memories
from hpcscientist.launching.sites.site import Home
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.site import BackendKind, Site
from hpcscientist.records.trial import Isolation
from hpcscientist.system.gpus import count as count_gpus
from hpcscientist.worker import MODULE

_FIX = "ask for less in recipe.toml ([resources]), or launch where there is more (--backend slurm)"


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """This machine; see `sites.site.TrialSite`.

    `most`: trials at once, 0 for as many as the cores hold. `gpus`: the GPUs that model servers
    leave to trials, None for all.
    """

    why: str
    profile: Site
    most: int = 0
    gpus: tuple[str, ...] | None = None
    kind: ClassVar[BackendKind] = "local"

    def home(self, settings: Settings) -> Home:
        """Return the home on this machine."""
        return Home.of(settings)

    def isolation(self, image: str | None) -> Isolation:
        """Return the isolation that Apptainer on this machine provides."""
        return isolation.choose(image)

    def require(self, isolation: Isolation) -> None:
        """Raise UsageError if trials need Apptainer and this machine has none."""
        if isolation is Isolation.APPTAINER and shutil.which("apptainer") is None:
            raise UsageError(
                "it was measured in a container, and this machine has no Apptainer; install it, "
                "or give --backend slurm"
            )

    def check(self, spec: RecipeSpec) -> tuple[str, ...]:
        """Return warnings if this machine has fewer cores or less memory than a trial asks for.

        Raises UsageError if the trial asks for more or larger GPUs than this machine has.
        """
        asked, here = spec.resources, count_gpus(os.environ)
        if here is not None and asked.gpus > here:
            has = f"has {here}" if here else "has none"
            raise UsageError(
                f"recipe {spec.name}: resources.gpus asks for {asked.gpus} a trial and this "
                f"machine {has}; lower it in recipe.toml, or launch where there are enough "
                "(--backend slurm)"
            )
        least = min(gpu_memories(), default=0) if asked.gpu_memory_mb else 0
        if 0 < least < asked.gpu_memory_mb:
            raise UsageError(
                f"recipe {spec.name}: resources.gpu_memory_mb asks for {asked.gpu_memory_mb} and a "
                f"GPU of this machine has {least}; {_FIX}"
            )
        said = []
        if asked.cpus > _cores():
            said.append(
                f"a trial asks for {asked.cpus} CPUs and this machine has {_cores()} for it: the "
                f"trial may miss its deadline for that reason alone; {_FIX}"
            )
        if asked.memory_mb > memory_mb():
            said.append(
                f"a trial asks for {asked.memory_mb} MiB and this machine has {memory_mb():.0f}: "
                f"it runs alone, and may run out of memory; {_FIX}"
            )
        return tuple(said)

    def slots(self, spec: RecipeSpec) -> int:
        """Return how many trials run at once; memory and GPUs may allow fewer."""
        return self.most or max(1, _cores() // spec.resources.cpus)

    def open(self, paths: RunPaths, campaign_id: str, slots: int) -> LocalBackend:
        """Return the backend; see `TrialSite`. It finds running trials by the run directory."""
        del campaign_id
        return LocalBackend(paths, slots, MODULE, self.gpus)


def _cores() -> int:
    return len(os.sched_getaffinity(0))
