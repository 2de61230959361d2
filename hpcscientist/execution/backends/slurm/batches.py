"""Batches: which trials go into which array, and their record on disk.

A batch is one array. Its record is written before `sbatch` is called, so that an array whose
driver was killed right after can be found by its name and adopted; what each array task runs
is read from the same record, so that the array needs nothing else from its driver.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pydantic import ValidationError

from hpcscientist.execution.backends.slurm.limits import SlurmLimits
from hpcscientist.files.atomic import write_atomic
from hpcscientist.records.base import Record
from hpcscientist.records.site import SlurmSite
from hpcscientist.records.trial import TrialSpec

# What an array task may need beside its trials' deadlines: to start, to score, to be slow.
START_S, EACH_S = 60.0, 10.0
# Of what a scorer may take at most, it hardly ever takes so much.
_SPARED_S = 90.0

# Short trials are spread over at most this many array tasks before any is packed.
SPREAD = 100


class Slot(Record):
    """One trial in an array task."""

    trial_id: str
    run: int


class Batch(Record):
    """One array: `tasks[k]` are the trials that array task k runs, one after another.

    `minutes` is the time limit; `created_at` seconds since the epoch.
    """

    batch_id: str
    campaign_id: str
    trials_folder: str
    tasks: tuple[tuple[Slot, ...], ...]
    cpus: int
    gpus: int
    memory_mb: int
    minutes: int
    created_at: float


class Submitted(Record):
    """The array's job id, written once `sbatch` has told it."""

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
        """The job id; its absence means that the queue has to be asked."""
        return self.root / "submitted.json"

    @property
    def script(self) -> Path:
        """What `sbatch` was given."""
        return self.root / "array.sh"

    def log(self, job_id: str, task: int) -> Path:
        """What an array task printed; exists once it has started. The name is submitit's."""
        return self.root / f"{job_id}_{task}_0_log.out"

    def read(self) -> Batch | None:
        """Return the batch; None if it is unreadable. Raises OSError but for a missing file."""
        try:
            return Batch.model_validate_json(self.record.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def job_id(self) -> str | None:
        """Return the array's job id if it is known."""
        try:
            return Submitted.model_validate_json(self.submitted.read_bytes()).job_id
        except (FileNotFoundError, ValidationError):
            return None

    def write(self, batch: Batch) -> None:
        """Write the intent. Raises OSError."""
        self.root.mkdir(parents=True, exist_ok=True)
        write_atomic(self.record, batch.model_dump_json().encode())

    def write_job_id(self, job_id: str) -> None:
        """Write the job id. Raises OSError."""
        write_atomic(self.submitted, Submitted(job_id=job_id).model_dump_json().encode())


Expect = Callable[[TrialSpec], float]


@dataclass(frozen=True, slots=True)
class Room:
    """What one array may hold now: `tasks` by all limits together, `at_once` side by side."""

    tasks: int
    at_once: int
    max_minutes: int


@dataclass(frozen=True, slots=True)
class InQueue:
    """The user's array tasks and jobs that have not ended: this campaign's trials, and others."""

    own: int
    others: int = 0

    @property
    def total(self) -> int:
        """What a submit limit counts."""
        return self.own + self.others


def room(limits: SlurmLimits, site: SlurmSite, queue: InQueue, slots: int, cpus: int = 1) -> Room:
    """Return the room for the next array.

    `slots` bounds the campaign's own tasks, the submit limit all of the user's. `cpus`: what
    each task of the array asks for.
    """
    left = min(slots - queue.own, limits.max_submit - queue.total)
    fit = max(1, limits.cpus // cpus) if limits.cpus else SPREAD
    return Room(
        tasks=max(0, min(limits.max_array, left)),
        at_once=min(SPREAD, site.at_once or SPREAD, slots, fit),
        max_minutes=limits.max_minutes,
    )


def resources(spec: TrialSpec) -> tuple[int, int, int, float]:
    """Return what an array asks for a trial; those with equal answers can share one."""
    limits = spec.limits
    return limits.cpus, limits.gpus, limits.memory_mb, limits.deadline_s


def arrange(
    specs: Sequence[TrialSpec], pack_s: float, space: Room, expect: Expect
) -> list[list[TrialSpec]]:
    """Arrange trials with equal resources, in order, as the tasks of one array.

    Trials that are expected to be shorter than `pack_s` share a task until it is about that
    long, but only once there are more of them than can run side by side. Tasks hold equally
    many, in whole waves of those that run side by side: a last task that runs alone would cost
    more than packing wins. What does not fit `space` is left out. `expect` returns a trial's
    expected seconds.
    """
    if not specs or space.tasks < 1:
        return []
    longest = max(expect(spec) for spec in specs)
    by_length = max(1, int(min(pack_s / longest, len(specs)))) if longest > 0 else 1
    by_time_limit = max(1, math.floor((space.max_minutes * 60 - START_S) / _bound_s(specs[0])))
    wave = max(1, min(space.tasks, space.at_once))
    share = math.ceil(len(specs) / wave)
    per_task = max(1, min(by_length, by_time_limit, share))
    count = min(len(specs), space.tasks, wave * math.ceil(share / per_task))
    short, longer = divmod(min(len(specs), count * per_task), count)
    ends = [short * k + min(k, longer) for k in range(count + 1)]
    return [list(specs[begin:end]) for begin, end in pairwise(ends)]


def make_batch(
    campaign_id: str, trials_folder: Path, tasks: Sequence[Sequence[TrialSpec]], now: float
) -> Batch:
    """Return the record of one array."""
    first = tasks[0][0].limits
    seconds = START_S + max(sum(_bound_s(spec) for spec in task) for task in tasks)
    return Batch(
        batch_id=f"{int(now):x}{secrets.token_hex(3)}",
        campaign_id=campaign_id,
        trials_folder=str(trials_folder),
        tasks=tuple(
            tuple(Slot(trial_id=spec.trial_id, run=spec.run) for spec in task) for task in tasks
        ),
        cpus=first.cpus,
        gpus=first.gpus,
        memory_mb=first.memory_mb,
        minutes=math.ceil(seconds / 60),
        created_at=now,
    )


def _bound_s(spec: TrialSpec) -> float:
    return spec.limits.deadline_s + max(0.0, spec.limits.scorer_s - _SPARED_S) + EACH_S
