"""Running the loop until it ends, or something halts it: a signal, a request, a lost plane."""

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
# SIGUSR1: what Slurm sends a controller job some time before its limit. SIGXCPU: what the kernel
# sends before a limit of processor time (see `system.inherited`).
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU)


def _heard() -> tuple[signal.Signals, ...]:
    """Return the signals that this thread can take: none but the main thread, by Python's rule."""
    return STOP_SIGNALS if threading.current_thread() is threading.main_thread() else ()


@contextmanager
def unheard() -> Iterator[None]:
    """Have what asks a driver to end do nothing meanwhile: it is ending.

    Once its loop has ended they would kill it, with what it still has on nodes.
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
    """Run the loop until it ends, fails, is asked to stop, or has no models (any more).

    `on_answer` is called once the models answer. Raises Interrupted, PlaneLost, what kept the
    models from being served, or what the loop raised first.
    """
    stop = asyncio.Event()
    reason = "a signal"

    def on_signal(number: signal.Signals) -> None:
        nonlocal reason
        reason = number.name
        # A walltime, a log-out: what a scheduler has may go on. Ctrl-C and cancel mean the trials.
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
        wired.let_go()  # the next driver adopts what the scheduler has
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
