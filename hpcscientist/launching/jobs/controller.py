"""What runs in the controller job: it drives the campaign, and sees to its own continuation.

The continuation is a second job that waits for this one's end, whatever that is. It is in the
queue before this job waits for anything, so that a job lost at any time is continued. It is
cancelled where there is nothing to go on with: the campaign has ended, has failed, or was
cancelled, or another driver is alive and stays so. Where this job ends otherwise (time limit,
preemption, killed outright) it starts by itself, waits until the dead driver's heartbeat is
stale, and resumes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hpcscientist.errors import (
    CampaignBusy,
    CampaignError,
    HpcsciError,
    Interrupted,
    PlaneLost,
    RunDirectoryError,
)
from hpcscientist.files.atomic import write_text
from hpcscientist.files.handed.regular import read_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen, journal
from hpcscientist.history.journal import Journal
from hpcscientist.history.lock import BEAT_S, STALE_S, DriverLock
from hpcscientist.history.state import CampaignState
from hpcscientist.launching.drive import Observer, drive
from hpcscientist.launching.jobs import chain
from hpcscientist.launching.jobs.chain import Chain
from hpcscientist.launching.jobs.dispatch import job_of, open_slurm
from hpcscientist.launching.jobs.succession import Succession
from hpcscientist.ports.telling import Tell
from hpcscientist.records.events import DriverStarted, DriverStopped, Event, NoteTaken

# Longer than a dead driver's heartbeat can look alive.
PATIENCE_S = 2 * STALE_S

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
    another driver is alive and stays so, or what stopped the loop.
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
    except (Interrupted, PlaneLost):  # the next job goes on, with a plane of its own
        if paths.cancel_request.exists():
            succession.cancel()
        else:
            succession.leave()
        raise
    except CampaignBusy:
        if link.drives:
            succession.leave()  # it is the continuation of who took the campaign from us
        else:
            # Or it would wait for the same driver. If that one has counted on it, it has
            # another submitted when it next looks.
            link.discount()
            succession.cancel()
        raise
    except HpcsciError:
        succession.cancel()
        raise
    except KeyboardInterrupt:
        # Told to stop while it waited for the last driver's end.
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
    """This job as a link of the chain. `drives` from the moment the driver's lock is ours."""

    paths: RunPaths
    own: str
    wait: Callable[[float], object]
    drives: bool = False
    _before: Chain | None = None

    def count(self, max_links: int) -> bool:
        """Count this job; False where the campaign has ended, and nothing is to be continued.

        It counts before it has a continuation, so that jobs which never come to drive do not
        follow each other for ever. Raises CampaignError when the chain must end here.
        """
        events = journal.read(self.paths.journal)
        if any(event.type == "campaign_ended" for event in events):
            return False
        before = self._read()
        now = chain.advance(before, self.own, chain.progress(events))
        reason = chain.why_stop(now, max_links)
        if reason is not None:
            _when_free(lambda: _record_end(self.paths, reason), self)
            raise CampaignError(f"{reason}; {_mend(self.paths)}")
        self._write(now)
        self._before = before
        return True

    def discount(self) -> None:
        """Take the count back: this job ends in an orderly way, and there was nothing to drive."""
        if self._before is not None and not self.drives:
            with contextlib.suppress(RunDirectoryError):  # one too many does no harm
                self._write(self._before)

    def watch(self, observe: Observer) -> Observer:
        """Wrap an observer, to learn when this job drives."""

        def watched(event: Event, state: CampaignState) -> None:
            self.drives = self.drives or isinstance(event, DriverStarted)
            observe(event, state)

        return watched

    def _write(self, counted: Chain) -> None:
        try:
            write_text(self.paths.chain, counted.model_dump_json() + "\n")
        except OSError as error:
            raise RunDirectoryError(
                f"{self.paths.chain}: cannot be written: {error.strerror}; mend that and run "
                "`hpcsci resume`"
            ) from error

    def _read(self) -> Chain:
        try:
            return Chain.model_validate_json(read_regular(self.paths.chain))
        except (OSError, ValueError):
            return Chain()  # the first link; or damaged, and then a fresh count does no harm


def _when_free(attempt: Callable[[], T], link: _Link) -> T:
    """Do what needs the driver's lock, once a dead driver's heartbeat is stale.

    Raises CampaignBusy when somebody lives, or has taken the campaign from us; Interrupted when
    `hpcsci cancel` comes meanwhile, for that waits for the same driver.
    """
    until = time.monotonic() + PATIENCE_S
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
            why = f"{reason}; {_mend(paths)}"
            # What its drivers left in the queue nobody has stopped; steps ended with their jobs.
            goes_on = not frozen.read(paths).settings.serving.trials_inside
            stopped = DriverStopped(
                generation=lock.generation, reason=why, failed=True, lets_go=goes_on
            )
            book.record(stopped)
        finally:
            book.close()
    finally:
        lock.release()


def _mend(paths: RunPaths) -> str:
    return f"see {paths.controller_log('*')}, mend what stops them, and run `hpcsci resume`"
