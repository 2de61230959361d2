"""Driving a campaign from wherever it stands to its end, by one driver at a time.

Both `launch` and `resume` come here. A signal or a request to cancel stops the campaign
cleanly: running trials are ended, the journal says so, and `resume` goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable

from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.lock import DriverLock
from hpcscientist.campaign.state import CampaignState
from hpcscientist.campaign.wiring import Session, Wired, wire
from hpcscientist.errors import HpcsciError, Interrupted
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.events import (
    CampaignEnded,
    CampaignStarted,
    DriverStarted,
    DriverStopped,
    Event,
)

CANCEL_POLL_S = 0.3
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Observer = Callable[[Event, CampaignState], None]


def drive(paths: RunPaths, observe: Observer) -> CampaignState:
    """Take a campaign up and run it to its end; return its final state.

    `observe` is told every event as it is recorded, with the state after it. Raises
    CampaignBusy, Interrupted, or what stopped the loop; the run directory can be resumed
    after any of them.
    """
    lock = DriverLock(paths.lock)
    try:
        return _drive(paths, lock.generation, observe)
    finally:
        lock.release()


def _drive(paths: RunPaths, generation: int, observe: Observer) -> CampaignState:
    state = CampaignState()
    live = False

    def on_event(event: Event) -> None:
        state.apply(event)
        if live:
            observe(event, state)

    journal = Journal(paths.journal, on_event)
    try:
        live = True
        if state.ended:
            return state
        paths.cancel_request.unlink(missing_ok=True)
        wired = wire(Session(paths, journal, state, generation))
        journal.record(CampaignStarted(campaign_id=wired.config.campaign_id))
        journal.record(
            DriverStarted(generation=generation, host=socket.gethostname(), pid=os.getpid())
        )
        _run(paths, wired, journal, generation)
    finally:
        journal.close()
    return state


def _run(paths: RunPaths, wired: Wired, journal: Journal, generation: int) -> None:
    try:
        asyncio.run(_conduct(paths, wired))
        journal.record(CampaignEnded())
        wired.conductor.compactor.finish()
    except HpcsciError as error:
        stopped = DriverStopped(
            generation=generation, reason=str(error), failed=not isinstance(error, Interrupted)
        )
        with contextlib.suppress(HpcsciError):  # on a full disk the first error is the one to show
            journal.record(stopped)
        raise


async def _conduct(paths: RunPaths, wired: Wired) -> None:
    """Run the loop until it ends, fails, or is asked to stop."""
    stop = asyncio.Event()
    reason = "a signal"

    def on_signal(number: signal.Signals) -> None:
        nonlocal reason
        reason = number.name
        stop.set()

    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
            loop.add_signal_handler(number, on_signal, number)

    async def watch_requests() -> None:
        nonlocal reason
        while not paths.cancel_request.exists():  # noqa: ASYNC110 (another host's request)
            await asyncio.sleep(CANCEL_POLL_S)
        reason = "`hpcsci cancel`"
        stop.set()

    work = asyncio.create_task(wired.conductor.run())
    watch = asyncio.create_task(watch_requests())
    halt = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({work, halt}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
            await asyncio.wait({work})
        if stop.is_set() and (work.cancelled() or work.exception() is not None):
            raise Interrupted(f"stopped by {reason}; go on with `hpcsci resume {paths.root}`")
        work.result()
    except BaseExceptionGroup as group:
        raise _first(group) from group
    finally:
        for task in (watch, halt):
            task.cancel()
        await wired.close()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a task group: the others are its echoes."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        known = [e for e in error.exceptions if isinstance(e, HpcsciError)]
        error = known[0] if known else error.exceptions[0]
    return error
