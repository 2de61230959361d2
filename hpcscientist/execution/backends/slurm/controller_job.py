"""The controller, the job that drives a campaign: its script, submission and place in the queue.

Each controller's successor is submitted while it runs, to start after it (`afterany`). So the
campaign continues even if the controller is killed without warning. The job that only serves models
is here, too.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.config.partitions import of_controller
from hpcscientist.config.sbatch import cluster_of, extra_of_controller, gpu_options, written
from hpcscientist.execution.backends.slurm import commands, sweep
from hpcscientist.execution.backends.slurm.commands import Slurm, unshadowed
from hpcscientist.execution.backends.slurm.watching.queue import QueueRow
from hpcscientist.execution.backends.slurm.watching.states import Phase
from hpcscientist.records.site import Site, SlurmSite

# The first shell lines of every job. They are here because importing submitit takes long.


def setup_lines(site: SlurmSite) -> list[str]:
    """Return the shell lines before the command: modules, then the site's own."""
    return [*(f"module load {shlex.quote(module)}" for module in site.modules), *site.setup]


MODULE = "hpcscientist.cli.main"
# Slurm's reason for a job that waits until another one has ended.
_AFTER = "Dependency"
# The Slurm variables that a process in a job keeps; see `leave_job`.
_NOT_OF_THE_JOB = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT"})


@dataclass(frozen=True, slots=True)
class ControllerJob:
    """The request for a job that drives a campaign.

    `python` is a shell word or command; `log` is a file name with Slurm's %j for the job's number.
    """

    campaign_id: str
    run_dir: Path
    log: Path
    nodes: int
    site: Site
    python: str


def script(job: ControllerJob) -> str:
    """Return the sbatch script of a campaign's controller."""
    # -P: do not import modules from the folder it was submitted from.
    command = f"{job.python} -P -u -m {MODULE} controller {shlex.quote(str(job.run_dir))}"
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in options(job)),
        *setup_lines(job.site.slurm),
        f"exec {command}",
    ]
    return "\n".join(lines) + "\n"


def options(job: ControllerJob) -> list[str]:
    """Return the sbatch options of a controller, as in a script."""
    mark = (job.campaign_id, commands.CONTROLLER)
    return own_options(job.site, mark, job.nodes, job.log, requeue=job.site.slurm.requeue)


def own_options(
    site: Site, mark: tuple[str, str], nodes: int, log: Path, *, requeue: bool
) -> list[str]:
    """Return the options of a job by the site's [controller]; `mark`: see `naming.job_name`."""
    own, extra, slurm = site.controller, extra_of_controller(site), of_controller(site)
    cluster = cluster_of(site.slurm)
    named = {name: getattr(slurm, name) for name in ("account", "partition", "qos", "constraint")}
    memory = {
        "mem": f"--mem={own.memory_mb}M",
        "mem-per-cpu": f"--mem-per-cpu={-(-own.memory_mb // own.cpus)}M",
        "none": "",
    }[slurm.memory]
    listed = [
        f"--clusters={cluster}" if cluster else "",
        f"--job-name={commands.job_name(*mark)}",
        f"--comment={commands.job_comment(*mark)}",
        *(f"--{name}={value}" for name, value in named.items() if value),
        f"--nodes={nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={own.cpus}",
        memory,
        *(written(name, value) for name, value in gpu_options(slurm, own.gpus, extra.gres).items()),
        f"--exclude={','.join(slurm.exclude)}" if slurm.exclude else "",
        f"--time={own.minutes}",
        f"--signal=B:USR1@{own.stop_before_s}",
        "--requeue" if requeue else "--no-requeue",
        "--open-mode=append",
        "--propagate=NONE",
        f"--output={_quoted(log)}",
        *(written(name, value) for name, value in extra.options.items()),
    ]
    return [option for option in listed if option]


def submit(
    slurm: Slurm,
    job: ControllerJob,
    after: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Submit a controller, to start when job `after` has ended; return its id.

    `environment` replaces this process's own. Raises SchedulerSilent if it is not known whether the
    job was created, SchedulerRefused.
    """
    waits = [f"--dependency=afterany:{after}"] if after else []
    return hand_in(slurm, script(job), waits, os.environ if environment is None else environment)


def hand_in(slurm: Slurm, text: str, waits: Iterable[str], environment: Mapping[str, str]) -> str:
    """Submit a script; return the job's id. Raises SchedulerSilent, SchedulerRefused."""
    # Pass the environment on: the keys of endpoints and the labels' location are in no file.
    more = () if "#SBATCH --export=ALL" in text else ("--export=ALL",)
    return slurm.submit(*more, *waits, stdin=text, environment=unshadowed(environment, text))


def live(slurm: Slurm, campaign_id: str) -> list[QueueRow]:
    """Return the campaign's controller jobs that have not ended, oldest first.

    Raises SchedulerError.
    """
    return _oldest_first(sweep.controllers(sweep.live_jobs(slurm, campaign_id), campaign_id))


def ensure(slurm: Slurm, job: ControllerJob) -> tuple[str, bool]:
    """Return the id of the campaign's controller, and whether this call submitted it.

    If two are submitted concurrently, the older one stays. The queue's ids with our name are
    authoritative: sbatch may have printed another number. Raises SchedulerError.
    """
    known = _lasting(slurm, job.campaign_id)
    if known:
        return known[0], False
    mine = submit(slurm, job)
    found = _lasting(slurm, job.campaign_id)
    if len(found) > 1 and mine != found[0]:
        sweep.cancel_jobs(slurm, [mine] if mine in found else found[1:])
    oldest = found[0] if found else mine
    return oldest, len(found) < 2 or oldest == mine


def ensure_successor(
    slurm: Slurm, job: ControllerJob, own: str, environment: Mapping[str, str]
) -> str:
    """Return the id of the controller that starts when job `own` has ended; submit it if missing.

    A requeued job finds the successor that it submitted before. Raises SchedulerError.
    """
    for row in live(slurm, job.campaign_id):
        if row.job_id != own and is_successor(row):
            return row.job_id
    return submit(slurm, job, after=own, environment=environment)


def is_successor(row: QueueRow) -> bool:
    """Return whether a controller waits until another one has ended."""
    return row.phase is Phase.WAITING and row.reason == _AFTER


def waiting(rows: Iterable[QueueRow], but: str = "") -> list[str]:
    """Return the ids of the controllers that wait for any reason, without `but`."""
    return [row.job_id for row in rows if row.phase is Phase.WAITING and row.job_id != but]


def leave_job() -> str:
    """Remove this job's Slurm variables, so that jobs submitted from here do not inherit them.

    sbatch passes the environment on, and this job's SLURM_MEM_PER_NODE, for example, would
    contradict the next job's request. Returns this job's id, "" outside of any job.
    """
    job_id = os.environ.get("SLURM_JOB_ID", "")
    for name in list(os.environ):
        if name.startswith(("SLURM_", "SLURMD_", "SRUN_")) and name not in _NOT_OF_THE_JOB:
            del os.environ[name]
    return job_id


def _lasting(slurm: Slurm, campaign_id: str) -> list[str]:
    """Return the ids of the controllers that are not about to end, oldest first."""
    return [row.job_id for row in live(slurm, campaign_id) if row.state != "COMPLETING"]


def _oldest_first(rows: list[QueueRow]) -> list[QueueRow]:
    return sorted(rows, key=lambda row: int(row.job_id))


def _quoted(path: Path) -> str:
    """Return a path quoted for an option in a script, with `%` doubled except in the file name."""
    folder = str(path.parent).replace("%", "%%")
    text = f"{folder}/{path.name}".replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


# The job that only serves models: its script, its submission, and finding it in the queue.
#
# It is not requeued: users of its endpoint would not find it again.


@dataclass(frozen=True, slots=True)
class ServingJob:
    """The request for a job that serves models.

    `folder` is the model server's; `python` is a shell word or command; `log` is a file name with
    Slurm's %j for the job's number.
    """

    owner: str
    folder: Path
    log: Path
    nodes: int
    site: Site
    python: str


def serving_script(job: ServingJob) -> str:
    """Return the sbatch script of a job that serves the models that its folder specifies."""
    where = shlex.quote(str(job.folder))
    # -P: do not import modules from the folder it was submitted from.
    command = f"{job.python} -P -u -m {MODULE} serve --as-submitted --dir {where}"
    mark = (job.owner, commands.SERVE)
    options = own_options(job.site, mark, job.nodes, job.log, requeue=False)
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in options),
        *setup_lines(job.site.slurm),
        f"exec {command}",
    ]
    return "\n".join(lines) + "\n"


def submit_serving(slurm: Slurm, job: ServingJob) -> str:
    """Submit a serving job; return its id. Raises SchedulerSilent, SchedulerRefused."""
    return hand_in(slurm, serving_script(job), (), os.environ)


def stop(slurm: Slurm, job_id: str) -> None:
    """Make a running job end, by the signal that it gets before its limit. Raises SchedulerError.

    Only the batch process gets the signal, its steps do not.
    """
    slurm.run("scancel", "--quiet", "--batch", "--signal=USR1", job_id)


def find(slurm: Slurm, owner: str) -> QueueRow | None:
    """Return the owner's job while it waits or runs, else None. Raises SchedulerError."""
    return next(iter(sweep.live_jobs(slurm, owner)), None)
