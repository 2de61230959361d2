"""Having a campaign driven by a job, and following that from elsewhere."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from hpcscientist.errors import Interrupted
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.state import CampaignState
from hpcscientist.launching.drive import Observer
from hpcscientist.launching.jobs.dispatch import dispatch, open_slurm
from hpcscientist.launching.jobs.follow import Follower
from hpcscientist.ports.telling import Tell
from hpcscientist.system import plugins


class Detached(Interrupted):
    """Whoever followed has gone; the campaign goes on."""


def drive_by_job(
    paths: RunPaths,
    observe: Observer,
    tell: Tell,
    detach: Callable[[str], None] | None = None,
) -> CampaignState:
    """Have a campaign driven by a job and follow that to its end.

    With `detach` it is left alone once the job is there, and `detach` is told the job's id; the
    state is then that of before. Raises Detached on Ctrl-C, and what `dispatch` and
    `Follower.follow` raise.
    """
    follower = Follower(paths, observe, tell)
    # Before the job is submitted: what is in the journal already is no news of that job.
    if follower.catch_up().ended:
        return follower.state
    config = frozen.read(paths)
    plugins.require(config.plugins)
    slurm = open_slurm(config)
    left = "interrupted; if its job was submitted by then, the campaign goes on"
    try:
        job_id, fresh = dispatch(paths, config, slurm, tell)
        left = "detached, and the campaign goes on"
        if detach is not None:
            detach(job_id)
            tell(f"job {job_id} drives the campaign; {_commands(paths)}")
            return follower.state
        tell(f"job {job_id} {'drives the campaign' if fresh else 'drives this campaign already'}")
        tell("Ctrl-C leaves it alone: it goes on")
        return follower.follow(slurm, config.campaign_id, job_id)
    except KeyboardInterrupt as error:
        raise Detached(f"{left}; {_commands(paths)}") from error


def _commands(paths: RunPaths) -> str:
    where = shlex.quote(str(paths.root))
    return (
        f"follow it: `hpcsci resume {where}`, look: `hpcsci status {where}`, "
        f"stop it: `hpcsci cancel {where}`"
    )
