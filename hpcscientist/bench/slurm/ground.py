"""A tiny recipe on the shared file system, and any number of trials of it."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcscientist import __version__
from hpcscientist.errors import SchedulerError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.sweep import sweep_jobs
from hpcscientist.files.hashing import hash_file, hash_tree, package_hash
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.site import Site
from hpcscientist.records.trial import (
    Budget,
    Direction,
    Isolation,
    Limits,
    MetricSpec,
    Provenance,
    Sources,
    Split,
    Stage,
    TrialSpec,
)

_RECIPE = Path(__file__).parent / "recipe"
_MEMORY_MB, _OUTPUT_MB = 512, 16
_SEEDS = 5  # trials of one idea


@contextmanager
def marked(site: Site) -> Iterator[str]:
    """Yield a mark for jobs; afterwards end the jobs that are left, and wait for them."""
    mark = f"bench{secrets.token_hex(4)}"
    try:
        yield mark
    finally:
        with contextlib.suppress(SchedulerError):
            sweep_jobs(Slurm.of(site), mark)


@dataclass(frozen=True, slots=True)
class SlurmGround:
    """A folder that every node sees, in which trials run that sleep for `seconds`.

    `campaign_id` marks their jobs. Without an `image` they run without a container.
    """

    root: Path
    campaign_id: str
    site: Site
    seconds: float
    image: str | None = None

    @property
    def run(self) -> RunPaths:
        """The run directory."""
        return RunPaths(self.root / "run")

    @property
    def code(self) -> Path:
        """The candidate's code."""
        return self.root / "recipe" / "code"

    @property
    def data(self) -> Path:
        """The public data."""
        return self.root / "data"

    def prepare(self) -> None:
        """Create everything except the trials. Raises OSError."""
        self.root.mkdir(parents=True)
        shutil.copytree(_RECIPE, self._recipe, ignore=shutil.ignore_patterns("__pycache__"))
        self._labels.mkdir()
        (self._labels / "labels.csv").write_text("1\n0\n1\n0\n")
        self.data.mkdir()
        (self.data / "seconds.txt").write_text(str(self.seconds))
        for folder in (self.root, self.data):  # a container may run as another user
            folder.chmod(0o755)
        self.run.trials.mkdir(parents=True)

    def specs(self, count: int, deadline_s: float) -> list[TrialSpec]:
        """Return trials, five per idea."""
        sources, provenance = self._sources(), self._provenance()
        limits = Limits(
            deadline_s=deadline_s, memory_mb=_MEMORY_MB, output_mb=_OUTPUT_MB, cpus=1, gpus=0
        )
        return [
            TrialSpec(
                trial_id=f"trial-{number:06d}",
                idea_id=f"idea-{number // _SEEDS:05d}",
                round=1,
                attempt=1,
                stage=Stage.SEEDS,
                seed=number % _SEEDS,
                split=Split.VALIDATION,
                budget=Budget.FULL,
                metrics=(MetricSpec(name="accuracy", direction=Direction.MAXIMIZE),),
                limits=limits,
                sources=sources,
                isolation=Isolation.NONE if self.image is None else Isolation.APPTAINER,
                host=self.site.host,
                provenance=provenance,
                queued_at=time.time(),
            )
            for number in range(count)
        ]

    @property
    def _recipe(self) -> Path:
        return self.root / "recipe"

    @property
    def _labels(self) -> Path:
        return self.root / "labels"

    def _sources(self) -> Sources:
        scorer = self._recipe / "score.py"
        return Sources(
            code=str(self.code),
            entry="experiment.py",
            data=str(self.data),
            labels=str(self._labels),
            scorer=str(scorer),
            scorer_hash=hash_file(scorer),
            predictions="predictions.csv",
            python=sys.executable,
            image=self.image,
        )

    def _provenance(self) -> Provenance:
        return Provenance(
            campaign_id=self.campaign_id,
            package_version=__version__,
            package_hash=package_hash(),
            recipe_hash="",
            data_hash="",
            code_hash=hash_tree(self.code),
            model="",
        )
