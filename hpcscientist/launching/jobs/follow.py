"""Following a campaign that a job drives, from a login node, at next to no cost.

The journal is looked at every second and only what was appended is read; Slurm is asked
rarely, for the queue alone says whether there is still somebody to wait for.
"""

from __future__ import annotations

import io
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hpcscientist.errors import CampaignError, Interrupted, RunDirectoryError, SchedulerError
from hpcscientist.execution.backends.slurm import controller_job
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.watching.ledger import Phase
from hpcscientist.execution.backends.slurm.watching.queue import QueueRow
from hpcscientist.files import log
from hpcscientist.files.atomic import read_tail
from hpcscientist.files.handed import open_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.state import CampaignState
from hpcscientist.history.upcasting import Reader, is_torn
from hpcscientist.launching.drive import Observer
from hpcscientist.launching.jobs.dispatch import describe, dispatch, in_order, open_slurm
from hpcscientist.models.serving.lease import PlaneNews
from hpcscientist.models.serving.order import ServingPaths
from hpcscientist.ports import Tell
from hpcscientist.records.events import DriverStarted, DriverStopped, Event
from hpcscientist.system import plugins

# Following a journal that another process writes: only what was appended is ever read.


class JournalTail:
    """The state of a campaign as its journal grows; `time`: of the last line, in seconds since the
    epoch.

    A last group that cannot be read is not finished yet. Where a line was taken back (the
    writer's disk was full, or a driver cut a torn line off) the journal is read anew.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._restart()

    def _restart(self) -> None:
        self.state, self.time = CampaignState(), 0.0
        self._reader = Reader(self._path.parent)
        self._offset, self._lines, self._last = 0, 0, b""

    def read(self, observe: Callable[[Event], None] = lambda event: None) -> list[Event]:
        """Take in what was appended since the last call, and return it.

        `observe` is told each event once it is part of the state, and no later one is. After a
        journal was read anew, nothing counts as appended. Raises RunDirectoryError when the
        journal is damaged.
        """
        try:
            # Opened each time: on NFS that is what shows another host's writing.
            with open_regular(self._path) as file:
                if self._path.stat().st_size == self._offset:
                    return []
                file.seek(self._offset - len(self._last))
                try:
                    return self._take(file.read(), observe)
                except (_Unexpected, RunDirectoryError):
                    file.seek(0)
                    self._restart()
                    self._take(file.read(), lambda event: None)
                    return []
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunDirectoryError(
                f"{self._path}: cannot be read: {error.strerror}; mend that and run `hpcsci resume`"
            ) from error
        except _Unexpected as error:
            raise RunDirectoryError(
                f"{self._path}:{error}: is damaged; restore the file from a backup"
            ) from error

    def _take(self, data: bytes, observe: Callable[[Event], None]) -> list[Event]:
        """Take in what follows the last known line, with which `data` must begin."""
        if not data.startswith(self._last):
            raise _Unexpected(self._lines)
        appended, start = data[len(self._last) :], 0
        taken: list[Event] = []
        try:
            for line, end in log.read(io.BytesIO(appended), self._reader.line, is_torn):
                self.state.apply(line.event)
                self.time = line.t
                taken.append(line.event)
                self._last = appended[start:end]
                self._offset += end - start
                self._lines += 1
                start = end
                observe(line.event)
        except log.DamagedLine as error:
            raise _Unexpected(self._lines + 1) from error
        return taken


class _Unexpected(Exception):
    """A line that does not follow the ones before it; its number is the message."""


POLL_S = 1.0
# Slurm is asked this often while the job waits at first, in between, and once it drives.
ASK_FIRST_S, ASK_S = 5.0, 30.0
# After a stop, and before an empty queue is believed: files may show later than the queue.
SETTLE_S = 3.0
_LOG_BYTES = 2000


@dataclass
class Follower:
    """Follows one campaign. `tell` says what no event says: where the job stands in the queue."""

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
        """The campaign as far as the journal was read."""
        return self._tail.state

    def catch_up(self) -> CampaignState:
        """Read what the journal holds already, without telling anybody; return the state."""
        self._tail.read()
        return self.state

    def follow(self, slurm: Slurm, campaign_id: str, job_id: str) -> CampaignState:
        """Follow until the campaign has ended; return its state.

        Raises Interrupted when it was stopped and nobody goes on, CampaignError when it
        failed, or when its job has gone without a word.
        """
        queue = _Queue(slurm, campaign_id, self.clock)
        while not self._read_events(queue):
            if of_plane := self._plane.look(is_running=self._is_running):
                self.tell(of_plane)
            rows = queue.ask()
            if rows is None:
                self.wait(POLL_S)
                continue
            self._say(queue.said or describe(rows))
            self._is_running = bool(rows) and rows[0].phase is Phase.RUNNING
            job_id = rows[0].job_id if rows else job_id
            if queue.empty_twice and not self._read_events(queue):
                raise self._verdict(job_id, slurm.hint(f"sacct -j {job_id}"))
        return self.state

    def _read_events(self, queue: _Queue) -> bool:
        """Show new events; tell whether the campaign has ended."""

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
        """Nobody drives and nobody will: say why. `sacct`: what tells more."""
        if self._stopped is not None:
            kind = CampaignError if self._stopped.failed else Interrupted
            return kind(self._stopped.reason)
        log = self.paths.controller_log(job_id)
        printed = read_tail(log, _LOG_BYTES).strip()
        missing = (
            f"{log}: is not there, though Slurm makes it as a job starts: compute nodes may not "
            "see this folder; `hpcsci doctor --run-dir DIR` tries one that they may see"
        )
        nothing = f"{log}: is empty" if log.exists() else missing
        self.tell(f"the last lines of {log}:\n{printed}" if printed else nothing)
        return CampaignError(
            f"controller job {job_id} is gone, and the campaign has not ended; mend what the log "
            f"above or `{sacct}` names, and run `hpcsci resume {self.paths.root}` (with "
            "--site FILE where the site profile was to blame)"
        )


class _Queue:
    """The campaign's controllers in the queue, asked for as rarely as will do."""

    def __init__(self, slurm: Slurm, campaign_id: str, clock: Callable[[], float]) -> None:
        self._slurm, self._campaign_id, self._clock = slurm, campaign_id, clock
        self._every = ASK_FIRST_S
        self._next = clock() + 1.0
        self._empty = 0
        self.said = ""

    @property
    def empty_twice(self) -> bool:
        """Whether the last two answers, a while apart, showed no controller."""
        return self._empty >= 2

    def ask_in(self, seconds: float) -> None:
        """Ask again soon."""
        self._next = min(self._next, self._clock() + seconds)

    def ask(self) -> list[QueueRow] | None:
        """Return the controllers, the one that matters first; None where it is not time yet."""
        if self._clock() < self._next:
            return None
        self.said = ""
        try:
            rows = controller_job.live(self._slurm, self._campaign_id)
        except SchedulerError as error:
            self.said = f"Slurm does not answer ({error}); still following"
            self._next = self._clock() + ASK_S
            return []
        rows = in_order(rows)
        self._empty = 0 if rows else self._empty + 1
        self._every = min(ASK_S, self._every * 1.5)
        self._next = self._clock() + (self._every if rows else SETTLE_S)
        return rows


# Having a campaign driven by a job, and following that from elsewhere.


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
