"""The queue as a table: one squeue for everything, and one sacct for what left the queue.

A pending array is one row, whatever its size, so the cost of a poll grows only with what runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from hpcscientist.execution.backends.slurm import commands
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.watching.states import Phase, cause, phase
from hpcscientist.records.trial import EndState

# The separator occurs in no name, comment or reason of ours or Slurm's.
_SEP = "\x1f"
_SQUEUE = _SEP.join(("%F", "%K", "%T", "%r", "%N", "%j", "%k", "%A", "%P"))
_TRIES = 3
_REVOKED = "REVOKED"  # another cluster of a federation runs the job
_SACCT = "JobID,State,ExitCode,NodeList,JobName,Comment,Start,End"


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A row of squeue. `tasks`: the array's task numbers that it covers.

    `job_id` is the array's, or the plain job's. `tasks` is empty for a plain job, and for the rest
    of an array that was cancelled task by task.
    """

    job_id: str
    tasks: tuple[range, ...]
    state: str
    reason: str
    node: str
    name: str
    comment: str
    partition: str

    @property
    def phase(self) -> Phase:
        """The tasks' phase."""
        return phase(self.state)


@dataclass(frozen=True, slots=True)
class AccountRow:
    """A row of sacct: one job or array task. `signal`: the signal that ended it, 0 for none.

    `task` is None for a plain job, and for all the tasks of an array that ended before they began.
    """

    job_id: str
    task: int | None
    state: str
    exit_code: int
    signal: int
    node: str
    name: str
    comment: str

    @property
    def cause(self) -> EndState:
        """Why it ended."""
        return cause(self.state)


@dataclass(frozen=True, slots=True)
class QueueTable:
    """The output of squeue. `unread`: lines that cannot be parsed, so rows may be missing."""

    rows: list[QueueRow]
    unread: list[str]


def queued(slurm: Slurm, campaign_id: str | None = None) -> list[QueueRow]:
    """Return the user's jobs that Slurm's controller knows, including recently ended ones.

    `campaign_id` restricts them to one campaign. If lines cannot be parsed, squeue is repeated, up
    to `_TRIES` calls in all, until the same lines come twice: then they belong to jobs with odd
    names. Raises SchedulerError.
    """
    found = queue_table(slurm)
    for _ in range(_TRIES - 1):
        before = found.unread
        if not before:
            break
        found = queue_table(slurm)
        if found.unread == before:
            break
    if campaign_id is None:
        return found.rows
    return [row for row in found.rows if commands.batch_of_job(campaign_id, row.name, row.comment)]


def queue_table(slurm: Slurm) -> QueueTable:
    """Return the output of one squeue. Raises SchedulerError."""
    # --me is the narrowest filter that needs no list of ids: ids that the controller has purged
    # would make squeue fail.
    text = slurm.run("squeue", "--me", "--noheader", "--states=all", f"--format={_SQUEUE}")
    lines = [(line, _queue_row(line)) for line in text.split("\n") if line]
    return QueueTable(
        [row for _, row in lines if row is not None and row.state != _REVOKED],
        [line for line, row in lines if row is None],
    )


def accounted(slurm: Slurm, job_ids: Collection[str]) -> list[AccountRow]:
    """Return accounting's rows of jobs, one per job or array task. Raises SchedulerError."""
    if not job_ids:
        return []
    text = slurm.run(
        "sacct",
        *("--noheader", "--parsable2", "--allocations", f"--format={_SACCT}"),
        *("--delimiter", _SEP, "--jobs", ",".join(sorted(job_ids))),
    )
    return [row for line in text.splitlines() if (row := _account_row(line)) is not None]


def accounted_by_name(slurm: Slurm, names: Collection[str], since_s: float) -> list[AccountRow]:
    """Return accounting's rows of jobs with these names, since a time in epoch seconds."""
    if not names:
        return []
    text = slurm.run(
        "sacct",
        *("--noheader", "--parsable2", "--allocations", f"--format={_SACCT}"),
        *("--delimiter", _SEP, "--name", ",".join(sorted(names))),
        *("--starttime", f"uts{int(since_s)}"),
    )
    return [row for line in text.splitlines() if (row := _account_row(line)) is not None]


def task_numbers(text: str) -> tuple[range, ...]:
    """Return the ranges of `1,3-5,10-20:2%4`; empty for N/A. Raises ValueError."""
    return tuple(_ranges(text))


def _ranges(text: str) -> Iterator[range]:
    body = text.partition("%")[0].strip("[] ")
    if not body or body.upper() == "N/A":
        return
    for part in body.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if found is None:
            raise ValueError(f"{text!r} is no list of array tasks")
        first = int(found[1])
        yield range(first, int(found[2] or first) + 1, int(found[3] or 1))


def _queue_row(line: str) -> QueueRow | None:
    """Return the row of a line; None if it cannot be parsed."""
    fields = line.split(_SEP)
    if len(fields) < 9:
        return None
    array, tasks, state, reason, node, name, said, job, partition = fields[:9]
    try:
        numbers = task_numbers(tasks)
    except ValueError:
        return None
    return QueueRow(
        job_id=array if numbers else job,
        tasks=numbers,
        state=state,
        reason=reason,
        node="" if node in ("N/A", "None assigned") else node,
        name=name,
        comment="" if said == "(null)" else said,
        partition=partition,
    )


def _account_row(line: str) -> AccountRow | None:
    fields = line.split(_SEP)
    if len(fields) < 8:
        return None
    number, state, code, node, name, said, _start, _end = fields[:8]
    job, _, task = number.partition("_")
    if "." in number:
        return None  # a step: some versions of sacct show steps despite --allocations
    if task.startswith("[") and phase(state) is not Phase.ENDED:
        return None  # squeue reports waiting tasks
    exit_code, _, signal = code.partition(":")
    return AccountRow(
        job_id=job,
        task=int(task) if task.isdigit() else None,
        state=state,
        exit_code=int(exit_code or 0),
        signal=int(signal or 0),
        node="" if node in ("None assigned", "None") else node,
        name=name,
        comment=said,
    )
