"""Write an array's script with submitit, and submit it.

Some of submitit's defaults do harm and are changed here:

- A time limit of 5 minutes, 256 elements at once, and a `--wckey` that some sites refuse: all set.
- A one-element array becomes a plain job: not here.
- A pickle for each element, renamed only after `sbatch` has returned. If the driver is killed in
  between, elements wait a minute for it and fail. Our array tasks read the batch's record instead.
- `srun` inside every job: left out, since it is one more request to the controller per trial.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import submitit

from hpcscientist.config.partitions import choose
from hpcscientist.config.sbatch import cluster_of, extra_of_trials, gpu_options
from hpcscientist.execution.backends.slurm import commands
from hpcscientist.execution.backends.slurm.batches import ArrayRecord, BatchFolder, need_of
from hpcscientist.execution.backends.slurm.commands import Slurm, unshadowed
from hpcscientist.execution.backends.slurm.controller_job import setup_lines
from hpcscientist.records.site import Site, SlurmSite

# Workers ignore submitit's signal and react to Slurm's own SIGTERM.
_SIGNAL_S = 5


class ArrayExecutor(submitit.SlurmExecutor):
    """submitit's executor, for an array that runs our own command."""

    @classmethod
    def affinity(cls) -> int:
        """Return that this can always be used: scripts are also shown on machines without Slurm."""
        return 2

    def text(self, command: str, count: int) -> str:
        """Return the script of an array of `count` tasks that run `command`."""
        self.parameters["map_count"] = count
        return str(self._make_submission_file_text(command, ""))


def command(site: SlurmSite, module: str, folder: Path) -> str:
    """Return the shell command of each array task, which gets its number from the environment."""
    python = site.python or shlex.quote(sys.executable)
    return f"exec {python} -P -u -m {module} {shlex.quote(str(folder))}"


def script(
    site: Site, batch: ArrayRecord, folder: Path, module: str, avoid: Collection[str] = ()
) -> str:
    """Return the script of a batch's array. `avoid`: nodes that failed repeatedly.

    Raises SiteError for a profile that cannot submit such an array.
    """
    return array_script(site, batch, folder, command(site.slurm, module, folder), avoid)


def array_script(
    site: Site, batch: ArrayRecord, folder: Path, line: str, avoid: Collection[str] = ()
) -> str:
    """Return the script of an array whose tasks run a shell line instead."""
    slurm = choose(site, need_of(site.slurm, batch))
    return _executor(slurm, batch, folder, avoid).text(line, len(batch.tasks))


@dataclass(frozen=True, slots=True)
class Sender:
    """Submits arrays whose tasks run a Python module."""

    slurm: Slurm
    site: Site
    module: str

    def submit(self, batch: ArrayRecord, folder: BatchFolder, avoid: Collection[str] = ()) -> str:
        """Write the batch's record, submit the array, write and return its job id.

        Raises SchedulerSilent if it is not known whether the array was created: look for its name
        later. Raises SchedulerRefused if it was not, and OSError if a file could not be written.
        """
        folder.write(batch)
        text = script(self.site, batch, folder.root, self.module, avoid)
        folder.script.write_text(text)
        given = unshadowed(os.environ, text)
        job_id = self.slurm.submit(str(folder.script), environment=given)
        folder.write_job_id(job_id)
        return job_id


def check(slurm: Slurm, text: str) -> None:
    """Ask Slurm whether it would accept a script, without submitting. Raises SchedulerError."""
    environment = unshadowed(os.environ, text)
    slurm.run("sbatch", "--test-only", stdin=text, environment=environment)


def _executor(
    site: SlurmSite, batch: ArrayRecord, folder: Path, avoid: Collection[str]
) -> ArrayExecutor:
    executor = ArrayExecutor(folder=folder)
    extra = extra_of_trials(site)
    cluster = cluster_of(site)
    memory = batch.memory_mb + site.memory_margin_mb
    parameters: dict[str, Any] = {
        "job_name": commands.job_name(batch.campaign_id, batch.batch_id),
        "comment": commands.job_comment(batch.campaign_id, batch.batch_id),
        "time": batch.minutes,
        "cpus_per_task": batch.cpus,
        "ntasks_per_node": 1,
        "array_parallelism": site.at_once or len(batch.tasks),
        "account": site.account or None,
        "partition": site.partition or None,
        "qos": site.qos or None,
        "constraint": site.constraint or None,
        "mem": f"{memory}M" if site.memory == "mem" else None,
        "mem_per_cpu": f"{-(-memory // batch.cpus)}M" if site.memory == "mem-per-cpu" else None,
        "exclude": ",".join(sorted({*site.exclude, *avoid})) or None,
        "setup": setup_lines(site) or None,
        "wckey": None,
        "signal_delay_s": _SIGNAL_S,
        "stderr_to_stdout": True,
        "use_srun": False,
        "additional_parameters": {
            "requeue" if site.requeue else "no-requeue": True,
            # Workers find the labels by the environment; a login node's limits do not apply there.
            "export": "ALL",
            "propagate": "NONE",
            "output": f"{str(folder).replace('%', '%%')}/%A_%a_0_log.out",
            **gpu_options(site, batch.gpus, extra.gres),
            **({"clusters": cluster} if cluster else {}),
            **{name: True if value is None else value for name, value in extra.options.items()},
        },
    }
    executor.parameters.update(parameters)  # not `update_parameters`, which converts memory
    return executor
