"""A task on its way: packed where it is asked for, run where there is room, unpacked again.

The packed call and outcome are bytes, so what carries them needs neither the task's module nor
its exceptions; and an exception comes out as it was raised, in no other's clothing.
"""

from __future__ import annotations

import asyncio
import inspect
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from hpcscientist.files.text import one_line

Task = Callable[[Any], Any]


def check(task: Task) -> None:
    """Raise TypeError unless the task can be found by its module and name."""
    module, name = getattr(task, "__module__", None), getattr(task, "__qualname__", "")
    found = getattr(sys.modules.get(module or ""), name, None)
    if found is not task or module == "__main__":
        raise TypeError(f"{task!r} is no task: it must stand at the top of an importable module")


async def run_here(task: Task, item: Any, threads: Executor) -> Any:
    """Run a task in this process: a coroutine function on this loop, others in a thread."""
    if inspect.iscoroutinefunction(task):
        return await task(item)
    return await asyncio.get_running_loop().run_in_executor(threads, task, item)


def pack(task: Task, item: Any) -> bytes:
    """Return a call as bytes. Raises TypeError where task or item cannot travel."""
    check(task)
    try:
        return pickle.dumps((task, item))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(f"the item of {task.__name__} cannot be pickled: {error}") from error


async def attempt(call: bytes, threads: Executor) -> bytes:
    """Run a packed call and return its outcome, also packed; raises nothing of the task's."""
    try:
        task, item = pickle.loads(call)
        return _sound(True, await run_here(task, item, threads))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's
        return _sound(False, error.with_traceback(None))


def unpack(outcome: bytes) -> Any:
    """Return a packed outcome's result, or raise the exception that it holds."""
    good, value = pickle.loads(outcome)
    if good:
        return value
    raise value


class Hand:
    """Runs packed calls in a process of its own, many at once on one event loop."""

    def __init__(self, width: int) -> None:
        """`width`: how many threads for tasks that are no coroutine functions."""
        self._threads = ThreadPoolExecutor(width, thread_name_prefix="task")

    async def ready(self) -> bool:
        """Answer, and so show that the process is up."""
        return True

    async def attempt(self, call: bytes) -> bytes:
        """Run one call."""
        return await attempt(call, self._threads)


def _sound(good: bool, value: object) -> bytes:
    """Pack an outcome that is sure to unpack: some exceptions pickle but cannot be made again."""
    try:
        packed = pickle.dumps((good, value))
        pickle.loads(packed)
    except Exception as error:  # noqa: BLE001 - the value's own code ran
        what = "result" if good else f"{type(value).__name__} ({one_line(str(value))})"
        failure = TypeError(f"the task's {what} cannot be pickled: {one_line(str(error))}")
        return pickle.dumps((False, failure))
    return packed
