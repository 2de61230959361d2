"""Batches: which trials an array runs, its record on disk, and the room for the next one.

A batch is one array. Its record is written before `sbatch` is called, so that an array whose driver
was killed right afterwards can be found by its name and adopted. Each array task reads from the
same record what to run, so the array needs nothing else from its driver.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from hpcscientist.config.partitions import JobNeeds
from hpcscientist.execution.backends.slurm.limits import SlurmLimits
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.handed import read_regular
from hpcscientist.records.base import Record
from hpcscientist.records.site import SlurmSite
from hpcscientist.records.trial import Batch, Capacity, Limits, RunId, TrialSpec

# Time beyond the trials' deadlines: for the start of an array task, and for each trial's overhead.
START_S, EACH_S = 60.0, 10.0
# This part of a scorer's limit is not requested, since scorers hardly ever need it.
_SPARED_S = 90.0

# Short trials are spread over at most this many array tasks before any is packed.
SPREAD = 100


class ArrayRecord(Record):
    """One array: `tasks[k]` are the trials that array task k runs, one after another.

    `minutes` is the time limit; `created_at` is in seconds since the epoch.
    """

    batch_id: str
    campaign_id: str
    trials_folder: str
    tasks: tuple[tuple[RunId, ...], ...]
    cpus: int
    gpus: int
    gpu_type: str = ""  # records of earlier versions lack it
    memory_mb: int
    minutes: int
    created_at: float


class Submitted(Record):
    """The array's job id, written after `sbatch` has returned it."""

    job_id: str


@dataclass(frozen=True, slots=True)
class BatchFolder:
    """A batch's folder below the run directory's submission folder."""

    root: Path

    @property
    def record(self) -> Path:
        """The batch; written before submission."""
        return self.root / "batch.json"

    @property
    def submitted(self) -> Path:
        """The job id; if it is missing, ask the queue."""
        return self.root / "submitted.json"

    @property
    def script(self) -> Path:
        """The script for `sbatch`."""
        return self.root / "array.sh"

    def log(self, job_id: str, task: int) -> Path:
        """Return the log of an array task, which exists once it has started; submitit names it."""
        return self.root / f"{job_id}_{task}_0_log.out"

    def read(self) -> ArrayRecord | None:
        """Return the batch; None if it is missing or invalid. Raises OSError otherwise."""
        try:
            return ArrayRecord.model_validate_json(read_regular(self.record))
        except (FileNotFoundError, ValidationError):
            return None

    def job_id(self) -> str | None:
        """Return the array's job id; None if it is missing or invalid. Raises OSError otherwise."""
        try:
            return Submitted.model_validate_json(read_regular(self.submitted)).job_id
        except (FileNotFoundError, ValidationError):
            return None

    def write(self, batch: ArrayRecord) -> None:
        """Write the batch's record. Raises OSError."""
        self.root.mkdir(parents=True, exist_ok=True)
        write_atomic(self.record, batch.model_dump_json().encode())

    def write_job_id(self, job_id: str) -> None:
        """Write the job id. Raises OSError."""
        write_atomic(self.submitted, Submitted(job_id=job_id).model_dump_json().encode())


@dataclass(frozen=True, slots=True)
class InQueue:
    """The user's array tasks and jobs that have not ended: this campaign's trials, and others."""

    own: int
    others: int = 0

    @property
    def total(self) -> int:
        """The number that a submit limit counts."""
        return self.own + self.others


def need_of(site: SlurmSite, batch: ArrayRecord) -> JobNeeds:
    """Return the request of each task of an array, as [[partitions]] of a profile count it."""
    memory_mb = batch.memory_mb + site.memory_margin_mb
    return JobNeeds(batch.minutes, memory_mb, batch.cpus, batch.gpus, batch.gpu_type)


def need_of_limits(site: SlurmSite, limits: Limits) -> JobNeeds:
    """Return the request of an array task that runs one trial with these limits."""
    memory_mb = limits.memory_mb + site.memory_margin_mb
    return JobNeeds(
        _minutes(_bound_s(limits)), memory_mb, limits.cpus, limits.gpus, limits.gpu_type
    )


def room(
    limits: SlurmLimits, site: SlurmSite, queue: InQueue, slots: int, like: TrialSpec
) -> Capacity:
    """Return how many trials like this one the next array may hold.

    `slots` limits the campaign's own tasks, the submit limit all of the user's.
    """
    left = min(slots - queue.own, limits.max_submit - queue.total)
    fit = max(1, limits.cpus // like.limits.cpus) if limits.cpus else SPREAD
    return Capacity(
        room=max(0, left),
        batch_max=limits.max_array,
        at_once=min(SPREAD, site.at_once or SPREAD, slots, fit),
        each=max(1, math.floor((limits.max_minutes * 60 - START_S) / _bound_s(like.limits))),
        pack_s=site.pack_s,
    )


def record_of(campaign_id: str, trials_folder: Path, batch: Batch, now: float) -> ArrayRecord:
    """Return the record of a batch's array."""
    first = batch.elements[0][0].limits
    bounds = [sum(_bound_s(spec.limits) for spec in task) for task in batch.elements]
    return ArrayRecord(
        batch_id=batch.batch_id,
        campaign_id=campaign_id,
        trials_folder=str(trials_folder),
        tasks=batch.runs,
        cpus=first.cpus,
        gpus=first.gpus,
        gpu_type=first.gpu_type,
        memory_mb=first.memory_mb,
        minutes=_minutes(max(bounds)),
        created_at=now,
    )


def _bound_s(limits: Limits) -> float:
    return limits.deadline_s + max(0.0, limits.scorer_s - _SPARED_S) + EACH_S


def _minutes(seconds: float) -> int:
    return math.ceil((START_S + seconds) / 60)
