"""Runs on a login node: submits the job that drives a campaign, or finds it in the queue."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hpcscientist.config.settings import Settings
from hpcscientist.errors import RunDirectoryError, SchedulerError, SchedulerSilent
from hpcscientist.execution.backends.slurm import controller_job
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.controller_job import ControllerJob
from hpcscientist.execution.backends.slurm.watching.queue import QueueRow
from hpcscientist.execution.backends.slurm.watching.states import Phase, can_never_run
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.ports import Tell
from hpcscientist.records.model_calls import Role
from hpcscientist.records.site import Site

PATIENCE_S = 120.0
_PAUSE_S = 5.0


def is_controlled(config: CampaignConfig) -> bool:
    """Return whether a Slurm job drives this campaign, instead of the `hpcsci resume` process."""
    return config.backend == "slurm" and config.settings.nodes > 0


def open_slurm(config: CampaignConfig) -> Slurm:
    """Return the Slurm commands, as this campaign's site profile configures them."""
    return Slurm.of(config.site)


def nodes_of(settings: Settings, specs: Mapping[Role, str]) -> int:
    """Return how many nodes the job that drives a campaign asks for; 0 if no job drives it.

    Driving takes one node. The job holds all of `--nodes` only if it serves models or runs trials
    inside: otherwise the other nodes would be idle, and its own trials might wait for them.
    """
    from hpcscientist.models.open import parse_spec  # noqa: PLC0415 (`status` needs none of it)

    serves = any(parse_spec(spec).kind == "vllm" for spec in specs.values())
    return settings.nodes if serves or settings.serving.trials_inside else min(1, settings.nodes)


def job_of(paths: RunPaths, config: CampaignConfig) -> ControllerJob:
    """Return the controller job of a campaign."""
    nodes = nodes_of(config.settings, config.role_specs)
    return make_job(paths, config.campaign_id, nodes, config.site)


def make_job(paths: RunPaths, campaign_id: str, nodes: int, site: Site) -> ControllerJob:
    """Return the controller job of a campaign, which may not exist yet."""
    return ControllerJob(
        campaign_id=campaign_id,
        run_dir=paths.root,
        log=paths.controller_log("%j"),
        nodes=nodes,
        site=site,
        python=site.slurm.python or shlex.quote(sys.executable),
    )


def dispatch(
    paths: RunPaths,
    config: CampaignConfig,
    slurm: Slurm,
    tell: Tell,
    wait: Callable[[float], object] = time.sleep,
) -> tuple[str, bool]:
    """Return the id of the job that drives the campaign, and whether it was submitted just now.

    A new job begins a new chain: the user has looked at what stopped the last one. If Slurm does
    not answer, this tries again for a while. Raises SchedulerSilent when it is unknown whether a
    job was created, and SchedulerRefused when Slurm refuses the job.
    """
    until = time.monotonic() + PATIENCE_S
    said = False
    while True:
        try:
            if not controller_job.live(slurm, config.campaign_id):
                paths.chain.unlink(missing_ok=True)
                paths.cancel_request.unlink(missing_ok=True)
            return controller_job.ensure(slurm, job_of(paths, config))
        except SchedulerSilent as error:
            if time.monotonic() > until:
                where = shlex.quote(str(paths.root))
                raise SchedulerSilent(
                    f"Slurm does not answer ({error}); once it does, run `hpcsci resume {where}`"
                ) from error
            if not said:
                tell(f"Slurm does not answer ({error}); trying again for {PATIENCE_S:g} s")
            said = True
            wait(_PAUSE_S)


# Describes the state in the queue of the job that drives a campaign.


_NO_REASON = ("", "None", "(null)")


@dataclass(frozen=True, slots=True)
class ControllerState:
    """Whether a campaign's controller is in the queue, and a line for people."""

    in_queue: bool
    text: str


def controller_state(paths: RunPaths) -> ControllerState:
    """Return the state of a campaign's controller; ask Slurm only if a job drives the campaign."""
    try:
        config = frozen.read(paths)
    except RunDirectoryError:
        return ControllerState(False, "")  # reading the journal reports this error
    if not is_controlled(config):
        return ControllerState(False, "")
    try:
        rows = controller_job.live(open_slurm(config), config.campaign_id)
    except SchedulerError as error:
        return ControllerState(False, f"controller: Slurm does not answer ({error})")
    return ControllerState(bool(rows), describe_controller(rows))


def describe_controller(rows: Sequence[QueueRow]) -> str:
    """Return the state of a campaign's controller in words; "" if there is none."""
    if not rows:
        return ""
    row = controllers_in_order(rows)[0]
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


def controllers_in_order(rows: Sequence[QueueRow]) -> list[QueueRow]:
    """Return the controllers in order: the running one first, then the one that starts next."""

    def rank(row: QueueRow) -> tuple[bool, bool, int]:
        follows = controller_job.is_successor(row)
        return row.phase is not Phase.RUNNING, follows, int(row.job_id)

    return sorted(rows, key=rank)
