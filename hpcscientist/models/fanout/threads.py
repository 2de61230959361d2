"""The adapter to this process: threads for work that blocks, its event loop for coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, overload

from hpcscientist.errors import ServingError
from hpcscientist.models.fanout import task as fanout_task
from hpcscientist.ports.fanout import Blocking, Later

A = TypeVar("A")
R = TypeVar("R")

CLOSED = "the fan-out is closed; open it anew"


class ThreadFanOut:
    """Runs tasks here, for blocking calls and for work that lets go of the interpreter.

    No machine can be lost without this process, so nothing is ever run again. Belongs to one
    event loop.
    """

    def __init__(self, width: int) -> None:
        """Start no thread yet. `width`: how many tasks run at once."""
        self._width = width
        self._slots = asyncio.Semaphore(width)
        self._threads = ThreadPoolExecutor(width, thread_name_prefix="fan-out")
        self._running: set[asyncio.Future[Any]] = set()
        self._closed = False

    @property
    def width(self) -> int:
        """How many tasks run at once, at most."""
        return self._width

    @overload
    async def run(self, task: Later[A, R], item: A) -> R: ...
    @overload
    async def run(self, task: Blocking[A, R], item: A) -> R: ...
    async def run(self, task: Callable[[A], Any], item: A) -> Any:
        """Run a task. Raises what it raises, TypeError for no task, ServingError once closed."""
        fanout_task.check(task)
        async with self._slots:
            if self._is_closed():
                raise ServingError(CLOSED)
            work = asyncio.ensure_future(fanout_task.run_here(task, item, self._threads))
            self._running.add(work)
            try:
                return await work
            except asyncio.CancelledError:
                if self._is_closed() and not _cancelling():
                    raise ServingError(CLOSED) from None
                raise
            finally:
                self._running.discard(work)

    async def close(self) -> None:
        """Cancel what waits, and wait until the threads are done with what they have begun."""
        self._closed = True
        for work in tuple(self._running):
            work.cancel()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    def _is_closed(self) -> bool:
        return self._closed


def _cancelling() -> bool:
    me = asyncio.current_task()
    return me is not None and me.cancelling() > 0
