"""Runs in the controller job: drives the campaign, and keeps a continuation in the queue.

The continuation is a second job that waits for the end of this one, whatever ends it. It is in
the queue before this job waits for anything, so that a job lost at any time is continued. This job
cancels it if there is nothing to continue: the campaign has ended, failed or was cancelled, or
another driver is alive and stays alive. If this job ends in another way (time limit, preemption,
killed), the continuation starts, waits until the dead driver's heartbeat is stale, and resumes.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from hpcscientist.errors import (
    CampaignBusy,
    CampaignError,
    HpcsciError,
    Interrupted,
    PlaneLost,
    RunDirectoryError,
    SchedulerError,
    SchedulerSilent,
)
from hpcscientist.execution.backends.slurm import controller_job, sweep
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.controller_job import ControllerJob
from hpcscientist.files.atomic import write_text
from hpcscientist.files.handed import read_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen, journal
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import BEAT_S, STALE_S, DriverLock
from hpcscientist.launching.drive import Observer, drive
from hpcscientist.launching.jobs.dispatch import job_of, open_slurm
from hpcscientist.ports import Tell
from hpcscientist.records.base import Record
from hpcscientist.records.events import (
    AttemptWritten,
    CampaignEnded,
    DriverStarted,
    DriverStopped,
    Event,
    IdeaEnded,
    IdeaProposed,
    NoteTaken,
    ReplyRecorded,
    TrialEnded,
    TrialStarted,
)

# The chain of controller jobs, and when it stops. Pure functions.
#
# Each job that drives a campaign is a link; its continuation is the next link. If one job after
# another fails or is killed without new results, the campaign only burns its allocation, so the
# chain ends. Jobs that stopped in an orderly way do not count: training or the queue may take
# longer than several jobs.

# The chain ends after this many fruitless links in a row: links that failed, or disappeared, and
# brought nothing new. A link that its time limit or preemption stopped (a DriverStopped that is
# not failed) is never fruitless; `controller.max_links` bounds those.
FRUITLESS_LINKS = 3
_PROGRESS = (ReplyRecorded, IdeaProposed, AttemptWritten, TrialEnded, IdeaEnded, CampaignEnded)


class JobChain(Record):
    """The progress of the chain. `links` counts the jobs that drove; `fruitless` the last links in
    a row that were fruitless, as seen when the next began; `progress` the journal's progress then.
    """

    job_id: str = ""
    links: int = 0
    fruitless: int = 0
    progress: int = 0


def progress(events: Iterable[Event]) -> int:
    """Return the number of events that show that a link was not fruitless.

    A run of a trial counts once: each driver that takes it over records its start again.
    """
    count, runs = 0, set()
    for event in events:
        if isinstance(event, TrialStarted):
            runs.add((event.trial_id, event.run))
        elif isinstance(event, DriverStopped):
            count += not event.failed
        else:
            count += isinstance(event, _PROGRESS)
    return count + len(runs)


def advance(chain: JobChain, job_id: str, reached: int) -> JobChain:
    """Return the chain with a job added; `reached` is the progress that it finds in the journal.

    A job that Slurm restarted is the same link.
    """
    if job_id == chain.job_id:
        return chain
    fruitless = chain.fruitless + 1 if chain.links and reached == chain.progress else 0
    return JobChain(job_id=job_id, links=chain.links + 1, fruitless=fruitless, progress=reached)


def why_stop(chain: JobChain, max_links: int) -> str | None:
    """Return why the last link must not drive; None if it may."""
    if chain.fruitless >= FRUITLESS_LINKS:
        return f"{chain.fruitless} controller jobs in a row brought nothing new"
    if chain.links > max_links:
        return f"{max_links} controller jobs have driven this campaign (controller.max_links)"
    return None


# While a controller job drives, exactly one continuation is in the queue; afterwards none.

# Seconds: before a new try after a refusal or silence; between checks that nobody has cancelled
# the continuation; how long Slurm may stay silent when the continuation is to be cancelled.
RETRY_S, LOOK_S, PATIENCE_S = 60.0, 900.0, 120.0
_PAUSE_S = 5.0


class Succession:
    """The continuation of job `own`. If Slurm does not answer, this asks again and never raises."""

    def __init__(
        self, paths: RunPaths, slurm: Slurm, job: ControllerJob, own: str, tell: Tell
    ) -> None:
        self._paths, self._slurm, self._job = paths, slurm, job
        self._own, self._tell = own, tell
        # A copy: the driver soon removes the key of its model's endpoint from its environment.
        self._environment = dict(os.environ)
        self._known = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="succession")

    def open(self) -> None:
        """Keep a continuation in the queue from now on.

        The first try happens before this returns, and so before any array of the campaign fills
        the user's share of the queue.
        """
        self._ensure()
        if not self._thread.is_alive():
            self._thread.start()

    def leave(self) -> None:
        """Keep the continuation, which starts when this job has ended."""
        self._stop.set()

    def cancel(self) -> None:
        """Cancel the continuation. If Slurm does not answer, the continuation ends by itself."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                rows = controller_job.live(self._slurm, self._job.campaign_id)
                sweep.cancel_jobs(self._slurm, controller_job.waiting(rows, but=self._own))
                return
            except SchedulerSilent as error:
                if time.monotonic() > until:
                    self._tell(f"the continuation could not be cancelled: {error}")
                    return
                time.sleep(_PAUSE_S)
            except SchedulerError as error:
                self._tell(f"the continuation could not be cancelled: {error}")
                return

    def _keep(self) -> None:
        while not self._stop.wait(LOOK_S if self._known else RETRY_S):
            self._ensure()

    def _ensure(self) -> None:
        if self._paths.cancel_request.exists():
            return
        try:
            job_id = controller_job.ensure_successor(
                self._slurm, self._job, self._own, self._environment
            )
        except SchedulerError as error:
            self._known = ""
            self._tell(f"no continuation yet, trying again in {RETRY_S:g} s: {error}")
            return
        if job_id != self._known:
            self._known = job_id
            self._tell(f"job {job_id} continues after this one")


# Longer than a dead driver's heartbeat can look alive.
QUEUE_PATIENCE_S = 2 * STALE_S

T = TypeVar("T")


def control(
    paths: RunPaths,
    own: str,
    observe: Observer,
    tell: Tell,
    wait: Callable[[float], object] = time.sleep,
) -> CampaignState:
    """Drive a campaign within job `own` and return its final state.

    Raises Interrupted when stopped by a signal or by `hpcsci cancel`, CampaignBusy when
    another driver stays alive, or what stopped the loop.
    """
    config = frozen.read(paths)
    succession = Succession(paths, open_slurm(config), job_of(paths, config), own, tell)
    link = _Link(paths, own, wait)
    try:
        if paths.cancel_request.exists():
            raise Interrupted("`hpcsci cancel` came before this job started")
        if link.count(config.site.controller.max_links):
            succession.open()
        state = _when_free(lambda: drive(paths, link.watch(observe), tell, own), link)
    except (Interrupted, PlaneLost):  # the next job continues, with its own model servers
        if paths.cancel_request.exists():
            succession.cancel()
        else:
            succession.leave()
        raise
    except CampaignBusy:
        if link.drives:
            succession.leave()  # it is now the continuation of the driver that took over
        else:
            # Otherwise it would wait for the same driver. If that driver relies on this
            # continuation, it submits another one when it next checks.
            link.discount()
            succession.cancel()
        raise
    except HpcsciError:
        succession.cancel()
        raise
    except KeyboardInterrupt:
        # A signal came while this job waited for the last driver's end.
        link.discount()
        if paths.cancel_request.exists():
            succession.cancel()
        else:
            succession.open()
        raise
    succession.cancel()
    return state


@dataclass(slots=True)
class _Link:
    """This job as a link of the chain. `drives` is true once this job holds the driver's lock."""

    paths: RunPaths
    own: str
    wait: Callable[[float], object]
    drives: bool = False
    _before: JobChain | None = None

    def count(self, max_links: int) -> bool:
        """Count this job; return False if the campaign has ended and needs no continuation.

        The job is counted before it has a continuation, so that jobs that never drive do not
        follow each other forever. Raises CampaignError when the chain must end here.
        """
        events = journal.read(self.paths.journal)
        if any(event.type == "campaign_ended" for event in events):
            return False
        before = self._read()
        now = advance(before, self.own, progress(events))
        reason = why_stop(now, max_links)
        if reason is not None:
            _when_free(lambda: _record_end(self.paths, reason), self)
            raise CampaignError(f"{reason}; {_fix(self.paths)}")
        self._write(now)
        self._before = before
        return True

    def discount(self) -> None:
        """Undo the count: this job ends in an orderly way and had nothing to drive."""
        if self._before is not None and not self.drives:
            with contextlib.suppress(RunDirectoryError):  # one link too many does no harm
                self._write(self._before)

    def watch(self, observe: Observer) -> Observer:
        """Return an observer that also notes when this job starts to drive."""

        def watched(event: Event, state: CampaignState) -> None:
            self.drives = self.drives or isinstance(event, DriverStarted)
            observe(event, state)

        return watched

    def _write(self, counted: JobChain) -> None:
        try:
            write_text(self.paths.chain, counted.model_dump_json() + "\n")
        except OSError as error:
            raise RunDirectoryError(
                f"{self.paths.chain}: cannot be written: {error.strerror}; fix that and run "
                "`hpcsci resume`"
            ) from error

    def _read(self) -> JobChain:
        try:
            return JobChain.model_validate_json(read_regular(self.paths.chain))
        except (OSError, ValueError):
            return JobChain()  # the first link; or a damaged file, then a new count does no harm


def _when_free(attempt: Callable[[], T], link: _Link) -> T:
    """Run an attempt that needs the driver's lock, again until a dead driver's heartbeat is stale.

    Raises CampaignBusy when another driver is alive or took the campaign over, and Interrupted
    when `hpcsci cancel` comes meanwhile, because that waits for the same driver.
    """
    until = time.monotonic() + QUEUE_PATIENCE_S
    while True:
        try:
            return attempt()
        except CampaignBusy:
            if link.drives or time.monotonic() > until:
                raise
            if link.paths.cancel_request.exists():
                raise Interrupted("`hpcsci cancel` came before this job drove") from None
            link.wait(BEAT_S / 2)


def _record_end(paths: RunPaths, reason: str) -> None:
    lock = DriverLock(paths.lock)
    try:
        book = Journal(paths.journal, lambda event: None, lock.check)
        try:
            text = f"{reason}, so no further one was submitted"
            book.record(NoteTaken(name=f"chain stopped/{lock.generation}", text=text))
            why = f"{reason}; {_fix(paths)}"
            # Nobody has stopped the jobs that its drivers left in the queue; job steps have ended
            # with their jobs.
            goes_on = not frozen.read(paths).settings.serving.trials_inside
            stopped = DriverStopped(
                generation=lock.generation, reason=why, failed=True, lets_go=goes_on
            )
            book.record(stopped)
        finally:
            book.close()
    finally:
        lock.release()


def _fix(paths: RunPaths) -> str:
    return f"see {paths.controller_log('*')}, fix what stops them, and run `hpcsci resume`"
