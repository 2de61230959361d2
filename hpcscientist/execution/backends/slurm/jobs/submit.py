"""One array from a batch: its script, written by submitit, and its submission.

submitit's defaults that bite, and what is done about them: a time limit of 5 minutes, 256
elements at once and a `--wckey` that some sites refuse (all set here); a one-element array
becomes a plain job (not here); a pickle for each element, renamed only after `sbatch` has
returned, without which elements wait a minute and fail when the driver was killed in between
(our array tasks read the batch's record instead); `srun` inside every job (left out: one more
request to the controller a trial).
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import submitit

from hpcscientist.errors import SchedulerSilent
from hpcscientist.execution.backends.slurm import naming
from hpcscientist.execution.backends.slurm.batches import ArrayRecord, BatchFolder
from hpcscientist.execution.backends.slurm.commands import Slurm, unshadowed
from hpcscientist.execution.backends.slurm.jobs.setup import setup_lines
from hpcscientist.records.site import SlurmSite

# Nothing of ours listens to submitit's signal; Slurm's own SIGTERM is what a worker heeds.
_SIGNAL_S = 5


class ArrayExecutor(submitit.SlurmExecutor):
    """submitit's executor, for one array of our own command."""

    @classmethod
    def affinity(cls) -> int:
        """Whether this can be used: always, for scripts are shown where there is no Slurm too."""
        return 2

    def text(self, command: str, count: int) -> str:
        """Return the script of an array of `count` tasks that run `command`."""
        self.parameters["map_count"] = count
        return str(self._make_submission_file_text(command, ""))

    def submit_file(self, slurm: Slurm, path: Path, environment: Mapping[str, str]) -> str:
        """Submit a script and return the job id. Raises SchedulerError.

        What sbatch says may be lost though the array was made: that is silence, not a no.
        """
        output = slurm.run(*self._make_submission_command(path), environment=environment)
        try:
            return str(self._get_job_id_from_submission_command(output))
        except submitit.core.utils.FailedSubmissionError as error:
            said = output.strip()[:100] or "nothing"
            raise SchedulerSilent(f"sbatch named no job; it said: {said}") from error


def command(site: SlurmSite, module: str, folder: Path) -> str:
    """Return the shell command of each array task; the task's number is in its environment."""
    python = site.python or shlex.quote(sys.executable)
    return f"exec {python} -P -u -m {module} {shlex.quote(str(folder))}"


def script(
    site: SlurmSite, batch: ArrayRecord, folder: Path, module: str, avoid: Collection[str] = ()
) -> str:
    """Return the script of a batch's array. `avoid`: nodes that failed repeatedly."""
    return array_script(site, batch, folder, command(site, module, folder), avoid)


def array_script(
    site: SlurmSite, batch: ArrayRecord, folder: Path, line: str, avoid: Collection[str] = ()
) -> str:
    """Return the script of an array whose tasks run a line of the shell instead."""
    return _executor(site, batch, folder, avoid).text(line, len(batch.tasks))


@dataclass(frozen=True, slots=True)
class Sender:
    """Submits arrays whose tasks run a Python module."""

    slurm: Slurm
    site: SlurmSite
    module: str

    def submit(self, batch: ArrayRecord, folder: BatchFolder, avoid: Collection[str] = ()) -> str:
        """Record the intent, submit the array, record and return its job id.

        Raises SchedulerSilent when it is not known whether the array was made: look for its
        name later. Raises SchedulerRefused when it was not, and OSError when nothing could be
        written.
        """
        folder.write(batch)
        executor = _executor(self.site, batch, folder.root, avoid)
        line = command(self.site, self.module, folder.root)
        text = executor.text(line, len(batch.tasks))
        folder.script.write_text(text)
        job_id = executor.submit_file(self.slurm, folder.script, unshadowed(os.environ, text))
        folder.write_job_id(job_id)
        return job_id


def check(slurm: Slurm, text: str) -> None:
    """Ask Slurm whether it would take a script, without submitting it. Raises SchedulerError."""
    environment = unshadowed(os.environ, text)
    slurm.run("sbatch", "--test-only", stdin=text, environment=environment)


def options(extra: Collection[str]) -> dict[str, Any]:
    """Return further sbatch options, `--name=value` or `--name`, as submitit wants them."""
    found: dict[str, Any] = {}
    for option in extra:
        name, has_value, value = option.removeprefix("--").partition("=")
        found[name] = value if has_value else True
    return found


def _executor(
    site: SlurmSite, batch: ArrayRecord, folder: Path, avoid: Collection[str]
) -> ArrayExecutor:
    executor = ArrayExecutor(folder=folder)
    memory = batch.memory_mb + site.memory_margin_mb
    parameters: dict[str, Any] = {
        "job_name": naming.job_name(batch.campaign_id, batch.batch_id),
        "comment": naming.comment(batch.campaign_id, batch.batch_id),
        "time": batch.minutes,
        "cpus_per_task": batch.cpus,
        "ntasks_per_node": 1,
        "array_parallelism": site.at_once or len(batch.tasks),
        "account": site.account or None,
        "partition": site.partition or None,
        "qos": site.qos or None,
        "constraint": site.constraint or None,
        "gres": site.gres.format(gpus=batch.gpus) if batch.gpus else None,
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
            # Workers find the labels by the environment; a login node's limits are not theirs.
            "export": "ALL",
            "propagate": "NONE",
            "output": f"{str(folder).replace('%', '%%')}/%A_%a_0_log.out",
            **options(site.extra),
        },
    }
    executor.parameters.update(parameters)  # as they are: `update_parameters` converts memory
    return executor
