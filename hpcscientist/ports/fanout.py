"""The port to whatever spreads independent pieces of work over threads or machines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, TypeVar, overload

A = TypeVar("A")
R = TypeVar("R")

Later: TypeAlias = Callable[[A], Awaitable[R]]
Blocking: TypeAlias = Callable[[A], R]


class FanOut(Protocol):
    """Runs a task on one item, wherever there is room.

    Obligations: a task stands at the top of an importable module, for only its name travels;
    whatever else is refused with TypeError. A coroutine function is awaited, any other has a
    thread to itself, so both may wait. Item, result and exceptions can be pickled; items hold
    no secrets, for they may lie on disks. `run` may be called many times concurrently from one
    event loop; at most `width` tasks run at once, and they end in whatever order.

    The task's own exceptions are passed on as they are, and it is not run again. Where a
    machine or process was lost it is run again, a bounded number of times, and then
    ServingError is raised. So a task may run more than once, while its result comes back once;
    whoever keeps results keeps them where `run` returns, and not in the task.

    A cancelled `run` ends at once: a coroutine is cancelled where it runs; what runs in a
    thread goes on to its end, and its result is dropped.
    """

    @property
    def width(self) -> int:
        """How many tasks run at once, at most."""
        ...

    @overload
    async def run(self, task: Later[A, R], item: A) -> R: ...
    @overload
    async def run(self, task: Blocking[A, R], item: A) -> R: ...
    async def run(self, task: Callable[[A], Any], item: A) -> Any:
        """Run a task to its end and return its result."""
        ...

    async def close(self) -> None:
        """Stop what runs and leave no thread or process behind; `run` raises ServingError then.

        Idempotent.
        """
        ...
