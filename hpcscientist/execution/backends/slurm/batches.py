"""Batches: which trials an array runs, its record on disk, and the room for the next one.

A batch is one array. Its record is written before `sbatch` is called, so that an array whose driver
was killed right afterwards can be found by its name and adopted. Each array task reads from the
same record what to run, so the array needs nothing else from its driver.
"""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from hpcscientist.config.partitions import JobNeeds, choose
from hpcscientist.errors import SiteError
from hpcscientist.execution.backends.slurm.limits import SlurmLimits
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.handed import read_regular
from hpcscientist.records.base import Record
from hpcscientist.records.site import Site, SlurmSite
from hpcscientist.records.trial import Batch, Capacity, Limits, RunId, TrialSpec

# Time beyond the trials' deadlines: for the start of an array task, and for each trial's overhead.
START_S, EACH_S = 60.0, 10.0
# This part of a scorer's limit is not requested, since scorers hardly ever need it.
_SPARED_S = 90.0

# Short trials are spread over at most this many array tasks before any is packed.
SPREAD = 100

# How long an idle array task waits for further trials: about as long as a new one takes to start.
# Its time limit has room for AHEAD trials that run to their deadlines.
LINGER_S = 6.0
AHEAD = 2


# The inbox of an array task: further trials that it gets while it runs.
#
# Slurm takes a second or more to start an array task, and Python half a second. A task whose trials
# are short therefore waits a moment for further ones before it ends.
#
# An inbox is a folder of numbered messages. A message is written once, by whoever is first: the
# driver, with trials; or the task, without any, which closes the inbox. So the task looks at every
# trial that it was given, and a trial that came too late was not given to it.

# How often a task looks for a message: at first, at last, and how fast that changes. Seconds.
_FIRST_S, _LAST_S, _SLOWER = 0.03, 0.5, 1.2


class Message(Record):
    """Trials for a task, and the batch that the journal knows them by. Without any: closed."""

    batch_id: str = ""
    runs: tuple[RunId, ...] = ()


_CLOSED = Message()


@dataclass(frozen=True, slots=True)
class Inbox:
    """The inbox in a folder, which need not exist yet. Messages are numbered from 1."""

    root: Path

    def write(self, number: int, message: Message) -> bool:
        """Write a message; return false if there is one already, or if it cannot be written."""
        path = self._path(number)
        temporary = self.root / f".{secrets.token_hex(8)}.tmp"
        try:
            self.root.mkdir(exist_ok=True)  # without parents: a batch that was removed stays away
            temporary.write_text(message.model_dump_json())
            try:
                os.link(temporary, path)  # unlike a rename it fails where there is one
            except FileExistsError:
                # A network file system that repeats a request finds what the first one made.
                return message.runs != () and self.read(number) == message
            finally:
                temporary.unlink()
        except OSError:
            return False
        return True

    def read(self, number: int) -> Message | None:
        """Return a message; None where there is none. One that cannot be read closes the inbox."""
        try:
            return Message.model_validate_json(read_regular(self._path(number)))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError):
            return _CLOSED

    def close(self, number: int = 1) -> list[Message]:
        """Close the inbox behind its last message; return the messages from `number` on."""
        found: list[Message] = []
        while not self.write(number, _CLOSED):
            message = self.read(number)
            if message is None or not message.runs:  # closed, or nobody can write here
                break
            found.append(message)
            number += 1
        return found

    def take(self, number: int, until: float, linger_s: float) -> Message | None:
        """Return a message, as the task that it is for; None once the inbox is closed.

        Waits `linger_s` for it. The inbox is closed then, or at `until` (by `time.monotonic`).
        """
        give_up = min(until, time.monotonic() + linger_s)
        pause = _FIRST_S
        while time.monotonic() < give_up:
            if (message := self._look(number)) is not None:
                break
            time.sleep(pause)
            pause = min(pause * _SLOWER, _LAST_S)
        else:
            message = next(iter(self.close(number)), None)
        return message if message is not None and message.runs else None

    def given(self, until: float, linger_s: float) -> Iterator[RunId]:
        """Yield the trials that a task is given; see `take`."""
        number = 1
        while (message := self.take(number, until, linger_s)) is not None:
            yield from message.runs
            number += 1

    def _look(self, number: int) -> Message | None:
        # Listing a folder makes a network file system look at it again.
        try:
            os.listdir(self.root)  # noqa: PTH208
        except OSError:
            return None
        return self.read(number)

    def _path(self, number: int) -> Path:
        return self.root / f"{number}.json"


class ArrayRecord(Record):
    """One array: `tasks[k]` are the trials that array task k runs, one after another.

    `minutes` is the time limit; `created_at` is in seconds since the epoch. `each_s` is the most
    that one trial may take. A task accepts further trials until it is `open_s` old, and waits
    `linger_s` for them; see `Inbox`. Seconds.
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
    each_s: float = 0.0
    open_s: float = 0.0
    linger_s: float = 0.0

    def fits(self, limits: Limits) -> bool:
        """Return whether its tasks request exactly what a trial with these limits needs."""
        asked = self.cpus, self.gpus, self.gpu_type, self.memory_mb, self.each_s
        needed = limits.cpus, limits.gpus, limits.gpu_type, limits.memory_mb, _bound_s(limits)
        return asked == needed


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

    def inbox(self, task: int) -> Inbox:
        """Return the inbox in which an array task gets further trials while it runs."""
        return Inbox(self.root / f"inbox-{task}")

    def runs(self, batch: ArrayRecord, task: int) -> Iterator[RunId]:
        """Yield the runs of an array task, for that task: waits for further ones."""
        until = time.monotonic() + batch.open_s
        yield from batch.tasks[task]
        if batch.open_s:
            yield from self.inbox(task).given(until, batch.linger_s)

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
    return Capacity(
        room=max(0, left),
        batch_max=limits.max_array,
        at_once=at_once(limits, site, slots, like.limits.cpus),
        each=max(1, math.floor((limits.max_minutes * 60 - START_S) / _bound_s(like.limits))),
        pack_s=site.pack_s,
    )


def at_once(limits: SlurmLimits, site: SlurmSite, slots: int, cpus: int) -> int:
    """Return how many array tasks of `cpus` each can run side by side."""
    fit = max(1, limits.cpus // cpus) if limits.cpus else SPREAD
    return min(SPREAD, site.at_once or SPREAD, slots, fit)


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
        each_s=max(_bound_s(spec.limits) for task in batch.elements for spec in task),
    )


def accepting(record: ArrayRecord, site: Site, max_minutes: int) -> ArrayRecord:
    """Return an array whose tasks accept further trials, with the time limit that this needs.

    The limit is at most `max_minutes`, and at most what the same partition accepts.
    """
    open_s = site.slurm.stay_s
    held_s = max(record.minutes * 60 - START_S, AHEAD * record.each_s)
    minutes = max(record.minutes, min(_minutes(open_s + held_s), max_minutes))
    update = {"minutes": minutes, "open_s": open_s, "linger_s": LINGER_S}
    longer = record.model_copy(update=update)
    if site.partitions:
        usual, other = (_place(site, one) for one in (record, longer))
        if usual != other:
            return longer.model_copy(update={"minutes": record.minutes})
    return longer


def _place(site: Site, record: ArrayRecord) -> SlurmSite | None:
    try:
        return choose(site, need_of(site.slurm, record))
    except SiteError:
        return None


def _bound_s(limits: Limits) -> float:
    return limits.deadline_s + max(0.0, limits.scorer_s - _SPARED_S) + EACH_S


def _minutes(seconds: float) -> int:
    return math.ceil((START_S + seconds) / 60)
