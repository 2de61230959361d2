"""Drives a campaign from its current state to its end, with one driver at a time.

Both `launch` and `resume` call `drive`. A signal or a request to cancel stops the campaign
cleanly: the driver ends running trials and records its stop, and `resume` continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hpcscientist import __version__
from hpcscientist.campaign.agents import Session
from hpcscientist.campaign.conductor import warm_up
from hpcscientist.config.layers import KEY_VARIABLES
from hpcscientist.errors import (
    CampaignBusy,
    DiskFull,
    HpcsciError,
    Interrupted,
    RunDirectoryError,
)
from hpcscientist.files.atomic import NO_SPACE
from hpcscientist.files.hashing import package_hash
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import one_line
from hpcscientist.history import frozen, status
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import DriverLock
from hpcscientist.launching import embedder_choice
from hpcscientist.launching.serving.driver_sidecar import DriverSidecar, beside, serves
from hpcscientist.launching.shutdown import conduct, unheard
from hpcscientist.launching.wiring import Wired, restore, wire
from hpcscientist.ports import Embedder, Tell
from hpcscientist.records.events import (
    CampaignEnded,
    CampaignStarted,
    DriverStarted,
    DriverStopped,
    Event,
    NoteTaken,
    PlaneStopped,
)
from hpcscientist.records.trial import Isolation, Split
from hpcscientist.system import plugins
from hpcscientist.system.inherited import limit_met

Observer = Callable[[Event, CampaignState], None]


def drive(
    paths: RunPaths,
    observe: Observer,
    tell: Tell = lambda text: None,
    job_id: str = "",
    embedder: Embedder | None = None,
) -> CampaignState:
    """Take over a campaign and run it to its end; return its final state.

    `observe` gets every event as it is recorded, with the state after it; `tell` gets the progress
    of the model servers. `job_id` is the job whose allocation this process is in, "" for none.
    `embedder` is the one that the launch already opened. Raises CampaignBusy, Interrupted, or what
    stopped the loop; the run directory can be resumed after any of them.
    """
    lock = DriverLock(paths.lock)
    try:
        return _drive(paths, lock, observe, tell, job_id, embedder)
    finally:
        lock.release()


@dataclass(slots=True)
class _Hold:
    """This driver's right to the campaign, checked before each event is recorded."""

    paths: RunPaths
    lock: DriverLock
    wired: Wired | None = None

    def check(self) -> None:
        """Raise CampaignBusy once another driver has taken the campaign over."""
        try:
            self.lock.check()
        except CampaignBusy:
            if self.wired is not None:  # queued jobs now belong to the other driver
                self.wired.let_go()
            raise


def _drive(
    paths: RunPaths,
    lock: DriverLock,
    observe: Observer,
    tell: Tell,
    job_id: str,
    embedder: Embedder | None,
) -> CampaignState:
    state, hold, live = CampaignState(), _Hold(paths, lock), False

    def on_event(event: Event) -> None:
        state.apply(event)
        if live:
            observe(event, state)

    frozen.make_copy(paths)
    journal = Journal(paths.journal, on_event, hold.check)
    try:
        status.check_campaign(paths, state)
        live = True
        session = Session(paths, journal, state, lock.generation, job_id, embedder)
        if state.ended:
            restore(session)
        else:
            paths.cancel_request.unlink(missing_ok=True)
            _take_up(session, hold, tell)
    finally:
        journal.close()
    return state


def _take_up(session: Session, hold: _Hold, tell: Tell) -> None:
    """Serve the campaign's own models, if it has any, and run the campaign meanwhile."""
    paths, journal, generation = session.paths, session.journal, session.generation
    plugins.require(frozen.read(paths).plugins)
    with contextlib.ExitStack() as until_closed, contextlib.ExitStack() as stack:
        is_served = serves(paths)
        if is_served:
            # Before the model servers start: a job in which they never answer then counts as
            # fruitless.
            _record_start(session)
        try:
            plane = stack.enter_context(beside(paths, tell, session.job_id))
            wired = hold.wired = wire(session, plane)
        except HpcsciError as error:
            if is_served:
                # This driver has stopped no job of an earlier one.
                _record_stop(journal, generation, error, lets_go=True)
            raise
        for variable in KEY_VARIABLES:
            os.environ.pop(variable, None)  # the clients have them; workers do not need them
        _record_start(session)
        if note := embedder_choice.note(wired.config, wired.embedder):
            journal.record(note)
        if plane is None:
            _run(paths, wired, journal, generation, None)
            return
        answer = False

        def on_answer() -> None:
            nonlocal answer
            journal.record(plane.started(generation))
            answer = True

        try:
            _run(paths, wired, journal, generation, plane, on_answer)
        finally:
            until_closed.enter_context(unheard())  # until the model servers have ended
            if answer:
                with contextlib.suppress(HpcsciError):
                    journal.record(PlaneStopped(generation=generation, time=time.time()))


def _record_start(session: Session) -> None:
    """Record the first events of a driver; CampaignStarted is recorded once per campaign."""
    campaign_id = frozen.read(session.paths).campaign_id
    session.journal.record(CampaignStarted(campaign_id=campaign_id))
    session.journal.record(
        DriverStarted(
            generation=session.generation,
            host=socket.gethostname(),
            pid=os.getpid(),
            package_version=__version__,
            package_hash=package_hash(),
            python=platform.python_version(),
        )
    )


def _run(
    paths: RunPaths,
    wired: Wired,
    journal: Journal,
    generation: int,
    plane: DriverSidecar | None,
    on_answer: Callable[[], None] = lambda: None,
) -> None:
    try:
        warm_up()
        asyncio.run(conduct(paths, wired, plane, on_answer))
        _check_data(wired.config, journal)
        journal.record(CampaignEnded())
    except HpcsciError as error:
        _record_stop(journal, generation, error, lets_go=wired.lets_go)
        raise
    except Exception as error:
        if limit := limit_met(error):
            known = HpcsciError(f"{limit}, then run `hpcsci resume`")
        elif isinstance(error, OSError):
            known = _of_disk(paths, error)
        else:  # a bug of ours: `status` must say that the campaign failed
            said = f"unexpected {type(error).__name__}: {one_line(str(error))}"
            _record_stop(journal, generation, HpcsciError(said), lets_go=wired.lets_go)
            raise
        _record_stop(journal, generation, known, lets_go=wired.lets_go)
        raise known from error


def _check_data(config: CampaignConfig, journal: Journal) -> None:
    """Record a note if candidates without a sandbox changed the prepared data."""
    if config.isolation is Isolation.NONE and not config.has_intact_data():
        where = Path(config.views[Split.VALIDATION]).parent
        text = (
            f"the prepared data below {where} were changed while the campaign ran, so no finding "
            "can be trusted; delete that folder and launch anew, in a sandbox if you can"
        )
        journal.record(NoteTaken(name="data changed", text=text))


def _record_stop(journal: Journal, generation: int, error: HpcsciError, *, lets_go: bool) -> None:
    stopped = DriverStopped(
        generation=generation,
        reason=str(error),
        failed=not isinstance(error, Interrupted),
        lets_go=lets_go,
    )
    with contextlib.suppress(HpcsciError):  # on a full disk the first error is the one to show
        journal.record(stopped)


def _of_disk(paths: RunPaths, error: OSError) -> HpcsciError:
    """Return the error for a disk failure in the loop, with its fix."""
    if error.errno in NO_SPACE:
        return DiskFull(f"{paths.root}: no space left; free some and run `hpcsci resume`")
    where = error.filename or paths.root
    return RunDirectoryError(f"{where}: {error.strerror}; fix that and run `hpcsci resume`")
