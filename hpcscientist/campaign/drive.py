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
from collections.abc import Callable, Iterator
from pathlib import Path

from hpcscientist.campaign.frozen import CampaignConfig
from hpcscientist.campaign.journal import NO_SPACE, Journal
from hpcscientist.campaign.lock import DriverLock
from hpcscientist.campaign.state import CampaignState
from hpcscientist.campaign.wiring import Session, Wired, wire
from hpcscientist.errors import DiskFull, HpcsciError, Interrupted, RunDirectoryError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.models.open import API_KEY_VARIABLE
from hpcscientist.records.events import (
    CampaignEnded,
    CampaignStarted,
    DriverStarted,
    DriverStopped,
    Event,
    NoteTaken,
)
from hpcscientist.records.trial import Isolation, Split

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
        return _drive(paths, lock, observe)
    finally:
        lock.release()


def _drive(paths: RunPaths, lock: DriverLock, observe: Observer) -> CampaignState:
    state, generation = CampaignState(), lock.generation
    live = False

    def on_event(event: Event) -> None:
        state.apply(event)
        if live:
            observe(event, state)

    journal = Journal(paths.journal, on_event, lock.check)
    try:
        live = True
        if state.ended:
            return state
        paths.cancel_request.unlink(missing_ok=True)
        wired = wire(Session(paths, journal, state, generation))
        os.environ.pop(API_KEY_VARIABLE, None)  # the client has it; workers need not
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
        wired.conductor.compactor.finish()
        _check_data(wired.config, journal)
        journal.record(CampaignEnded())
    except HpcsciError as error:
        _record_stop(journal, generation, error)
        raise
    except OSError as error:
        known = _of_disk(paths, error)
        _record_stop(journal, generation, known)
        raise known from error


def _check_data(config: CampaignConfig, journal: Journal) -> None:
    """Say so if candidates without a sandbox changed the data that all of them read."""
    if config.isolation is Isolation.NONE and not config.has_intact_data():
        where = Path(config.views[Split.VALIDATION]).parent
        text = (
            f"the prepared data below {where} were changed while the campaign ran, so no finding "
            "can be trusted; delete that folder and launch anew, in a sandbox if you can"
        )
        journal.record(NoteTaken(name="data changed", text=text))


def _record_stop(journal: Journal, generation: int, error: HpcsciError) -> None:
    stopped = DriverStopped(
        generation=generation, reason=str(error), failed=not isinstance(error, Interrupted)
    )
    with contextlib.suppress(HpcsciError):  # on a full disk the first error is the one to show
        journal.record(stopped)


def _of_disk(paths: RunPaths, error: OSError) -> HpcsciError:
    """The run directory's disk failed somewhere in the loop: say so in one line."""
    if error.errno in NO_SPACE:
        return DiskFull(f"{paths.root}: no space left; free some and run `hpcsci resume`")
    where = error.filename or paths.root
    return RunDirectoryError(f"{where}: {error.strerror}; mend that and run `hpcsci resume`")


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
    leaves = list(_leaves(group))
    known = [error for error in leaves if isinstance(error, HpcsciError)]
    return (known or leaves)[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from _leaves(inner)
