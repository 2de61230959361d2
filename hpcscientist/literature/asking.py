"""How many requests the stages of this room send side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

R = TypeVar("R")

SIDE_BY_SIDE = 32  # requests; a model bounds its own besides, this bounds the prompts in memory


async def together(
    tasks: Sequence[Callable[[], Awaitable[R]]], width: int = SIDE_BY_SIDE
) -> tuple[R, ...]:
    """Run tasks, at most `width` at once, and return their results in the tasks' order.

    The first that fails cancels the others, and its exception is raised as it is.
    """
    room = asyncio.Semaphore(width)

    async def run(task: Callable[[], Awaitable[R]]) -> R:
        async with room:
            return await task()

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(run(task)) for task in tasks]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return tuple(task.result() for task in running)
