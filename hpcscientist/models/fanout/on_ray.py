"""The adapter to a Ray cluster.

Ray's driver lives in a process of its own (`fanout/process`); where that was killed and the
cluster still answers, another takes its place, and the calls that were under way go out again.

On each node Ray keeps one process, a hand, that runs many tasks at once. Plain Ray tasks would
take a process for each request in flight, and Ray ends those beyond a node's CPUs after a
second's rest, with their connections. Ray restarts hands and tries their calls again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, overload

from hpcscientist.errors import ServingError
from hpcscientist.models.fanout import task as fanout_task
from hpcscientist.models.fanout.process import RayCluster, RayProcess, Start
from hpcscientist.models.fanout.threads import CLOSED
from hpcscientist.ports.fanout import Blocking, Later

__all__ = ["RayCluster", "RayFanOut"]

A = TypeVar("A")
R = TypeVar("R")

_HEAD_S = 5.0  # for the head to accept a connection


class RayFanOut:
    """Runs tasks across a Ray cluster. Connects at the first task; belongs to one event loop.

    Once the cluster is gone every task raises ServingError: a campaign that is resumed opens
    another, on the cluster of its new allocation.
    """

    def __init__(
        self, cluster: RayCluster, width: int = 64, retries: int = 3, ready_s: float = 120.0
    ) -> None:
        """Start nothing yet.

        `retries` counts the tries after the first of a task whose process or node was lost;
        `ready_s` is for connecting and for the first process on each node.
        """
        self._cluster, self._width = cluster, width
        self._start = Start(address=cluster.address, width=width, retries=retries, ready_s=ready_s)
        self._slots = asyncio.Semaphore(width)
        self._opening = asyncio.Lock()
        self._process: RayProcess | None = None
        self._failure: ServingError | None = None  # of the last start that failed
        self._closed = False

    @property
    def width(self) -> int:
        """How many tasks run at once, at most, over all nodes."""
        return self._width

    @overload
    async def run(self, task: Later[A, R], item: A) -> R: ...
    @overload
    async def run(self, task: Blocking[A, R], item: A) -> R: ...
    async def run(self, task: Callable[[A], Any], item: A) -> Any:
        """Run a task on some node. Raises what it raises, TypeError for what cannot travel.

        Raises ServingError where the cluster is gone, refuses, or lost the task too often.
        """
        call = fanout_task.pack(task, item)
        async with self._slots:
            outcome = await self._ask(call)
        return fanout_task.unpack(outcome)

    async def close(self) -> None:
        """Disconnect; Ray then ends this fan-out's processes on all nodes. Idempotent."""
        self._closed = True
        async with self._opening:
            if self._process is not None:
                await self._process.close()

    async def _ask(self, call: bytes) -> bytes:
        """Have a call run, again where the process of Ray's driver died under it."""
        left = self._start.retries
        while True:
            process = await self._connected()
            try:
                return await process.call(call)
            except ServingError:
                if not process.gone or left == 0:
                    raise
                left -= 1

    async def _connected(self) -> RayProcess:
        """Return the process, which is started where there is none.

        A start that fails, which may take minutes, has failed for all who waited for it.
        """
        known = self._failure
        async with self._opening:
            if self._closed:
                raise ServingError(CLOSED)
            former = self._process
            if former is not None and not former.gone:
                return former
            if self._failure is not None and self._failure is not known:
                raise ServingError(str(self._failure))
            try:
                self._process = await self._started(former)
            except ServingError as error:
                self._failure = error
                raise
            return self._process

    async def _started(self, former: RayProcess | None) -> RayProcess:
        """Start a process, the first or in a lost one's place. Raises ServingError."""
        if former is not None:
            if not await self._answers():
                raise ServingError(former.gone)
            await former.close()
        return await RayProcess.start(self._cluster, self._start)

    async def _answers(self) -> bool:
        """Tell whether anybody listens where the cluster's head did."""
        host, _, port = self._cluster.address.rpartition(":")
        try:
            async with asyncio.timeout(_HEAD_S):
                _, writer = await asyncio.open_connection(host, int(port))
        except (OSError, ValueError):
            return False
        writer.close()
        return True
