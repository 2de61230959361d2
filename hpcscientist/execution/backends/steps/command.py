"""The command that starts a trial as a step of a job that runs."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.config.partitions import of_controller
from hpcscientist.errors import SchedulerRefused
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.steps.gpus import NO_GPUS, NodeGpus
from hpcscientist.records.site import Site
from hpcscientist.records.trial import Limits


@dataclass(frozen=True, slots=True)
class Allocation:
    """A job that runs and its nodes, by Slurm's names."""

    job_id: str
    nodes: tuple[str, ...]
    gpus: NodeGpus = NO_GPUS


def find_allocation(slurm: Slurm, job_id: str, gpus: NodeGpus = NO_GPUS) -> Allocation:
    """Ask Slurm for a running job's nodes. Raises SchedulerError, also when it has none."""
    listed = slurm.run("squeue", "--noheader", f"--jobs={job_id}", "--format=%N").strip()
    if not listed:
        raise SchedulerRefused(f"job {job_id} has no nodes: it does not run")
    names = slurm.run("scontrol", "show", "hostnames", listed).split()
    return Allocation(job_id, tuple(names), gpus)


def command(
    site: Site, allocation: Allocation, node: str, limits: Limits, name: str, line: str
) -> list[str]:
    """Return the command that runs a line of the shell as a step on a node.

    The worker's own memory comes on top of the candidate's, as in an array.
    """
    memory = limits.memory_mb + site.slurm.memory_margin_mb
    asked = {
        "mem": f"--mem={memory}M",
        "mem-per-cpu": f"--mem-per-cpu={-(-memory // limits.cpus)}M",
        "none": "",
    }[site.slurm.memory]
    # Without a request of its own a step sees all GPUs of its job; which are its own, see `gpus`.
    held = of_controller(site).gres.format(gpus=allocation.gpus.held)
    gres = f"--gres={held}" if limits.gpus else "--gres=none"
    options = [
        f"--jobid={allocation.job_id}",
        f"--job-name={name}",
        "--overlap",
        "--exact",
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={node}",
        f"--cpus-per-task={limits.cpus}",
        asked,
        gres if allocation.gpus.held else "",
        "--mpi=none",
        "--input=none",
        "--export=ALL",
        "--propagate=NONE",
        "--chdir=/",
    ]
    return ["srun", *(option for option in options if option), "/bin/sh", "-c", line]


def worker_line(
    site: Site, module: str, trial: Path, run: int, folder: Path, before: str = ""
) -> str:
    """Return the line of the shell that is a step's worker; `before`: what the shell does first."""
    python = site.slurm.python or shlex.quote(sys.executable)
    words = shlex.join([str(trial), str(run), str(folder)])
    return f"{before}exec {python} -P -u -m {module} {words}"
