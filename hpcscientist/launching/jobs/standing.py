"""Describes the state in the queue of the job that drives a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcscientist.errors import RunDirectoryError, SchedulerError
from hpcscientist.execution.backends.slurm import controller_job
from hpcscientist.execution.backends.slurm.watching.queue import QueueRow
from hpcscientist.execution.backends.slurm.watching.states import Phase, can_never_run
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.launching.jobs.dispatch import is_controlled, open_slurm

_NO_REASON = ("", "None", "(null)")


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a campaign's controller is in the queue, and a line for people."""

    in_queue: bool
    text: str


def standing_of(paths: RunPaths) -> Standing:
    """Return the state of a campaign's controller; ask Slurm only if a job drives the campaign."""
    try:
        config = frozen.read(paths)
    except RunDirectoryError:
        return Standing(False, "")  # reading the journal reports this error
    if not is_controlled(config):
        return Standing(False, "")
    try:
        rows = controller_job.live(open_slurm(config), config.campaign_id)
    except SchedulerError as error:
        return Standing(False, f"controller: Slurm does not answer ({error})")
    return Standing(bool(rows), describe(rows))


def describe(rows: Sequence[QueueRow]) -> str:
    """Return the state of a campaign's controller in words; "" if there is none."""
    if not rows:
        return ""
    row = in_order(rows)[0]
    if row.phase is Phase.RUNNING:
        return f"controller running, job {row.job_id}" + (f" on {row.node}" if row.node else "")
    reason = "" if row.reason in _NO_REASON else f", reason {row.reason}"
    text = f"controller queued, job {row.job_id}{reason}"
    if can_never_run(row.reason, row.partition):
        text += (
            "; it will not start by itself: `hpcsci cancel`, then `hpcsci resume` with what suits "
            "Slurm (--site, --partition, --account, --qos, --constraint)"
        )
    return text


def in_order(rows: Sequence[QueueRow]) -> list[QueueRow]:
    """Return the controllers in order: the running one first, then the one that starts next."""

    def rank(row: QueueRow) -> tuple[bool, bool, int]:
        follows = controller_job.is_successor(row)
        return row.phase is not Phase.RUNNING, follows, int(row.job_id)

    return sorted(rows, key=rank)
