"""The job that serves models and nothing else: its script, its submission, and its place in the
queue.

It is not requeued: who uses its endpoint would not find it again.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.execution.backends.slurm import naming
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.jobs import controller_job, sweep
from hpcscientist.execution.backends.slurm.jobs.setup import setup_lines
from hpcscientist.execution.backends.slurm.watching.queue import QueueRow
from hpcscientist.records.site import Site


@dataclass(frozen=True, slots=True)
class ServingJob:
    """What is asked of Slurm to serve models. `folder`: the plane's; `python`: a shell word or
    command; `log`: a file name with Slurm's %j for the job's number."""

    owner: str
    folder: Path
    log: Path
    nodes: int
    site: Site
    python: str


def script(job: ServingJob) -> str:
    """Return the sbatch script of a job that serves what the plane's folder says."""
    where = shlex.quote(str(job.folder))
    # -P: nothing in the folder it was submitted from is taken for a module.
    command = f"{job.python} -P -u -m {controller_job.MODULE} serve --as-submitted --dir {where}"
    mark = (job.owner, naming.SERVE)
    options = controller_job.own_options(job.site, mark, job.nodes, job.log, requeue=False)
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in options),
        *setup_lines(job.site.slurm),
        f"exec {command}",
    ]
    return "\n".join(lines) + "\n"


def submit(slurm: Slurm, job: ServingJob) -> str:
    """Submit it; return its id. Raises SchedulerSilent, SchedulerRefused."""
    return controller_job.hand_in(slurm, script(job), (), os.environ)


def stop(slurm: Slurm, job_id: str) -> None:
    """Tell a running job to end by the signal that it gets before its limit. Raises SchedulerError.

    The batch process alone hears it, and not its steps.
    """
    slurm.run("scancel", "--quiet", "--batch", "--signal=USR1", job_id)


def find(slurm: Slurm, owner: str) -> QueueRow | None:
    """Return the job while it waits or runs, None once it has ended. Raises SchedulerError."""
    return next(iter(sweep.live_jobs(slurm, owner)), None)
