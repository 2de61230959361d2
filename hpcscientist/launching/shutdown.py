"""Runs the loop until it ends, or until a signal, `hpcsci cancel` or lost model servers stop it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hpcscientist.errors import Interrupted, PlaneLost
from hpcscientist.files.rundir import RunPaths
from hpcscientist.launching.serving.driver_sidecar import DriverSidecar
from hpcscientist.launching.wiring import Wired

CANCEL_POLL_S = 0.3
# Slurm sends SIGUSR1 to a controller job some time before its limit. The kernel sends SIGXCPU
# before a limit of processor time (see `system.inherited`).
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU)


def _heard() -> tuple[signal.Signals, ...]:
    """Return the stop signals that this thread can handle: Python allows it in the main thread."""
    return STOP_SIGNALS if threading.current_thread() is threading.main_thread() else ()


@contextmanager
def unheard() -> Iterator[None]:
    """Ignore stop signals in this context: the driver is already ending.

    After the loop's end a signal would kill the driver before it has ended its processes on nodes.
    """
    before = {number: signal.getsignal(number) for number in _heard()}
    for number in before:
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


async def conduct(
    paths: RunPaths,
    wired: Wired,
    plane: DriverSidecar | None,
    on_answer: Callable[[], None] = lambda: None,
) -> None:
    """Run the loop until it ends, fails, is asked to stop, or has no model servers.

    Calls `on_answer` once the models answer. Raises Interrupted, PlaneLost, the failure that kept
    the models from being served, or the loop's first error.
    """
    stop = asyncio.Event()
    reason = "a signal"

    def on_signal(number: signal.Signals) -> None:
        nonlocal reason
        reason = number.name
        # At a walltime or a log-out, Slurm's jobs may go on. Ctrl-C and cancel end the trials, too.
        if number is not signal.SIGINT and not paths.cancel_request.exists():
            wired.let_go()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in _heard():
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
            loop.add_signal_handler(number, on_signal, number)

    async def watch_requests() -> None:
        nonlocal reason
        while not paths.cancel_request.exists():  # noqa: ASYNC110 (another host's request)
            await asyncio.sleep(CANCEL_POLL_S)
        reason = "`hpcsci cancel`"
        stop.set()

    async def watch_plane() -> None:
        if plane is None:
            return
        while not plane.is_ready and not plane.lost:  # noqa: ASYNC110 (another thread's work)
            await asyncio.sleep(CANCEL_POLL_S)
        if not plane.lost:
            on_answer()
        while not plane.lost:  # noqa: ASYNC110 (other hosts' processes)
            await asyncio.sleep(CANCEL_POLL_S)
        wired.let_go()  # the next driver adopts the jobs in Slurm's queue
        stop.set()

    work = asyncio.create_task(wired.conductor.run())
    watch = asyncio.create_task(watch_requests())
    planes = asyncio.create_task(watch_plane())
    halt = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({work, halt}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
            await asyncio.wait({work})
        unfinished = work.cancelled() or work.exception() is not None
        if unfinished and plane is not None and plane.failure is not None:
            raise plane.failure
        if unfinished and plane is not None and plane.lost:
            raise PlaneLost(f"{plane.lost}; go on with `hpcsci resume {paths.root}`")
        if stop.is_set() and unfinished:
            raise Interrupted(f"stopped by {reason}; go on with `hpcsci resume {paths.root}`")
        work.result()
    finally:
        for task in (watch, halt, planes):
            task.cancel()
        await wired.close()
