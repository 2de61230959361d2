"""Follows a campaign that a Slurm job drives, from a login node, at very low cost.

It looks at the journal every second and reads only what was appended. It asks Slurm rarely: the
queue only shows whether a controller still exists.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hpcscientist.errors import CampaignError, Interrupted, SchedulerError
from hpcscientist.execution.backends.slurm import controller_job
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.watching.queue import QueueRow
from hpcscientist.execution.backends.slurm.watching.states import Phase
from hpcscientist.files.atomic import read_tail
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.state import CampaignState
from hpcscientist.launching.drive import Observer
from hpcscientist.launching.jobs.dispatch import (
    controllers_in_order,
    describe_controller,
    dispatch,
    open_slurm,
)
from hpcscientist.launching.jobs.tail import JournalTail
from hpcscientist.models.serving.lease import PlaneNews
from hpcscientist.models.serving.order import ServingPaths
from hpcscientist.ports import Tell
from hpcscientist.records.events import DriverStarted, DriverStopped, Event
from hpcscientist.system import plugins

POLL_S = 1.0
# The first pause between two questions to Slurm, and the longest.
ASK_FIRST_S, ASK_S = 5.0, 30.0
# After a stop, and before an empty queue is trusted: files may appear later than the queue's news.
SETTLE_S = 3.0
_LOG_BYTES = 2000


@dataclass
class CampaignFollower:
    """A follower of one campaign. `tell` gets what no event says: the job's state in the queue."""

    paths: RunPaths
    observe: Observer
    tell: Tell
    wait: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _said: str = ""
    _plane: PlaneNews = field(init=False)
    _is_running: bool = False
    _stopped: DriverStopped | None = None
    _tail: JournalTail = field(init=False)

    def __post_init__(self) -> None:
        self._tail = JournalTail(self.paths.journal)
        self._plane = PlaneNews(ServingPaths(self.paths.serving), self.clock)

    @property
    def state(self) -> CampaignState:
        """The campaign's state, as far as the journal was read."""
        return self._tail.state

    def catch_up(self) -> CampaignState:
        """Read the existing journal without notifying the observer; return the state."""
        self._tail.read()
        return self.state

    def follow(self, slurm: Slurm, campaign_id: str, job_id: str) -> CampaignState:
        """Follow until the campaign has ended; return its state.

        Raises Interrupted when it was stopped and no job continues it, and CampaignError when it
        failed or when its job disappeared without recording an end.
        """
        queue = _Queue(slurm, campaign_id, self.clock)
        while not self._read_events(queue):
            if of_plane := self._plane.look(is_running=self._is_running):
                self.tell(of_plane)
            rows = queue.ask()
            if rows is None:
                self.wait(POLL_S)
                continue
            self._say(queue.said or describe_controller(rows))
            self._is_running = bool(rows) and rows[0].phase is Phase.RUNNING
            job_id = rows[0].job_id if rows else job_id
            if queue.empty_twice and not self._read_events(queue):
                raise self._verdict(job_id, slurm.hint(f"sacct -j {job_id}"))
        return self.state

    def _read_events(self, queue: _Queue) -> bool:
        """Notify the observer of new events; return whether the campaign has ended."""

        def on_event(event: Event) -> None:
            if isinstance(event, DriverStopped):
                self._stopped = event
                queue.ask_in(SETTLE_S)
            elif isinstance(event, DriverStarted):
                self._stopped = None
            self.observe(event, self.state)

        self._tail.read(on_event)
        return self.state.ended

    def _say(self, text: str) -> None:
        if text and text != self._said:
            self.tell(text)
        self._said = text

    def _verdict(self, job_id: str, sacct: str) -> Exception:
        """Return the error for a campaign that no job drives or will drive.

        `sacct` is a command that shows more.
        """
        if self._stopped is not None:
            kind = CampaignError if self._stopped.failed else Interrupted
            return kind(self._stopped.reason)
        log = self.paths.controller_log(job_id)
        printed = read_tail(log, _LOG_BYTES).strip()
        missing = (
            f"{log}: does not exist, though Slurm creates it when a job starts: compute nodes may "
            "not see this folder; `hpcsci doctor --run-dir DIR` tests a folder"
        )
        nothing = f"{log}: is empty" if log.exists() else missing
        self.tell(f"the last lines of {log}:\n{printed}" if printed else nothing)
        return CampaignError(
            f"controller job {job_id} is gone, and the campaign has not ended; fix what the log "
            f"above or `{sacct}` shows, and run `hpcsci resume {self.paths.root}` (with "
            "--site FILE if the site profile was wrong)"
        )


class _Queue:
    """The campaign's controllers in the queue; asks Slurm as rarely as possible."""

    def __init__(self, slurm: Slurm, campaign_id: str, clock: Callable[[], float]) -> None:
        self._slurm, self._campaign_id, self._clock = slurm, campaign_id, clock
        self._every = ASK_FIRST_S
        self._next = clock() + 1.0
        self._empty = 0
        self.said = ""

    @property
    def empty_twice(self) -> bool:
        """Whether the last two answers, some seconds apart, showed no controller."""
        return self._empty >= 2

    def ask_in(self, seconds: float) -> None:
        """Ask again after this many seconds at the latest."""
        self._next = min(self._next, self._clock() + seconds)

    def ask(self) -> list[QueueRow] | None:
        """Return the controllers in the order of `in_order`; None if it is not yet time to ask."""
        if self._clock() < self._next:
            return None
        self.said = ""
        try:
            rows = controller_job.live(self._slurm, self._campaign_id)
        except SchedulerError as error:
            self.said = f"Slurm does not answer ({error}); still following"
            self._next = self._clock() + ASK_S
            return []
        rows = controllers_in_order(rows)
        self._empty = 0 if rows else self._empty + 1
        self._every = min(ASK_S, self._every * 1.5)
        self._next = self._clock() + (self._every if rows else SETTLE_S)
        return rows


# Submitting the job that drives a campaign, and following it.


class Detached(Interrupted):
    """The user stopped following; the campaign continues."""


def drive_by_job(
    paths: RunPaths,
    observe: Observer,
    tell: Tell,
    detach: Callable[[str], None] | None = None,
) -> CampaignState:
    """Drive a campaign by a Slurm job, and follow it to its end; return its state.

    `detach` is called with the job's id once the job exists; this function then returns at once,
    with the state before the job. Raises Detached on Ctrl-C, and what `dispatch` and
    `Follower.follow` raise.
    """
    follower = CampaignFollower(paths, observe, tell)
    # Before the job is submitted: events that are already in the journal are not news of that job.
    if follower.catch_up().ended:
        return follower.state
    config = frozen.read(paths)
    plugins.require(config.plugins)
    slurm = open_slurm(config)
    left = "interrupted; if its job was already submitted, the campaign continues"
    try:
        job_id, fresh = dispatch(paths, config, slurm, tell)
        left = "detached, and the campaign continues"
        if detach is not None:
            detach(job_id)
            tell(f"job {job_id} drives the campaign; {_commands(paths)}")
            return follower.state
        tell(f"job {job_id} {'drives the campaign' if fresh else 'drives this campaign already'}")
        tell("Ctrl-C stops following; the campaign continues")
        return follower.follow(slurm, config.campaign_id, job_id)
    except KeyboardInterrupt as error:
        raise Detached(f"{left}; {_commands(paths)}") from error


def _commands(paths: RunPaths) -> str:
    where = shlex.quote(str(paths.root))
    return (
        f"follow it: `hpcsci resume {where}`, look at it: `hpcsci status {where}`, "
        f"stop it: `hpcsci cancel {where}`"
    )
