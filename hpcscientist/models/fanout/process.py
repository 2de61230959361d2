"""The process of Ray's driver as the fan-out sees it: started, told calls, heard out, ended.

Ray's driver lives in a process of its own (`fanout/driver`), not in the campaign's: when the
cluster's head is gone Ray ends the process that it is in, without an exception; it takes over
SIGTERM; and it may need another interpreter. Here its end is one error among others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Any

from hpcscientist.errors import ServingError
from hpcscientist.files.text import one_line, printable
from hpcscientist.models.fanout.frames import Frame, Kind, encode, read
from hpcscientist.models.fanout.threads import CLOSED
from hpcscientist.models.serving.checking import interpreter
from hpcscientist.records.base import Record

DRIVER = "hpcscientist.models.fanout.driver"
_LAST_WORDS = 8192  # bytes of the Ray process's stderr that are kept
_LAST_WORDS_S = 5.0
_CONNECT_S = 120.0  # for importing Ray and for its first word with the head
_GRACE_S = 20.0  # for the Ray process to disconnect
_HEAD_SILENT_S = "20"  # Ray gives a head that does not answer up after this; its default is 60


class RayCluster(Record):
    """How a Ray cluster is reached. `address`: HOST:PORT of its head.

    `token_file` holds the cluster's token ("": the environment says). `python` is an
    interpreter with Ray and this package ("": this one), or a command of several words that
    starts one; nodes must know it by the same path.
    """

    address: str
    token_file: str = ""
    python: str = ""


class Start(Record):
    """What the Ray process is told first. `retries`: tries of a call after a fault."""

    address: str
    width: int
    retries: int
    ready_s: float


class RayProcess:
    """The process of Ray's driver. `gone`: why nothing more comes from it; "" while it lives."""

    def __init__(self, process: asyncio.subprocess.Process, address: str) -> None:
        self._process, self._address = process, address
        self._calls: dict[int, asyncio.Future[bytes]] = {}
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(_heard)
        self._number = 0
        self._said = bytearray()
        self.gone, self._connected = "", False
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._overhear())]

    @classmethod
    async def start(cls, cluster: RayCluster, start: Start) -> RayProcess:
        """Start the process and wait until it is connected. Raises ServingError."""
        python = cluster.python or sys.executable
        try:
            process = await asyncio.create_subprocess_exec(
                *(*interpreter.words(python), "-P", "-m", DRIVER),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment(cluster),
                start_new_session=True,  # a terminal's Ctrl-C is the campaign's to hear
            )
        except OSError as error:
            raise ServingError(
                f"{python}: cannot be run ({error.strerror}); set the site's serving.python"
            ) from error
        driver = cls(process, cluster.address)
        try:
            driver._send(Frame(Kind.START, body=start.model_dump_json().encode()))
            async with asyncio.timeout(start.ready_s + _CONNECT_S):
                await driver._ready
        except TimeoutError:
            await driver.close()
            raise ServingError(driver._trouble("no answer in time")) from None
        except BaseException:
            await driver.close()
            raise
        return driver

    async def call(self, call: bytes) -> bytes:
        """Have one packed call run and return its outcome. Raises ServingError."""
        if self.gone:
            raise ServingError(self.gone)
        self._number += 1
        number = self._number
        self._calls[number] = asyncio.get_running_loop().create_future()
        self._calls[number].add_done_callback(_heard)
        try:
            self._send(Frame(Kind.RUN, number, call))
            return await self._calls[number]
        except asyncio.CancelledError:
            self._send(Frame(Kind.CANCEL, number))
            raise
        finally:
            del self._calls[number]

    async def close(self) -> None:
        """Let the process disconnect and end, kill it if it does not. Idempotent."""
        self._fail(CLOSED)
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(_GRACE_S):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # it leads its own session
        await asyncio.wait(self._tasks, timeout=_LAST_WORDS_S)
        for task in self._tasks:  # a child of it may hold its pipes
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._process.wait()

    def _send(self, frame: Frame) -> None:
        # Not drained: `width` bounds what can lie in the buffer.
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(encode(frame))

    async def _listen(self) -> None:
        """Hear the process out; whatever ends that fails what waits, so that nothing hangs."""
        try:
            await self._hear()
            # Its last words; a child of it may hold the pipe open for longer.
            await asyncio.wait({self._tasks[1]}, timeout=_LAST_WORDS_S)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _LAST_WORDS_S)
        finally:
            self._fail(self._trouble(self._end()))

    def _end(self) -> str:
        """Say how the process ended; a warning that it gave before is not why it was killed."""
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        code = self._process.returncode
        if code is not None and code < 0:
            killed = f"its process was killed by signal {-code}"
            return f"{killed}; before that it said: {lines[-1]}" if lines else killed
        return lines[-1] if lines else "its process has gone"

    async def _hear(self) -> None:
        assert self._process.stdout is not None
        while (frame := await read(self._process.stdout)) is not None:
            if frame.kind is Kind.READY:
                self._connected = True
                if not self._ready.done():
                    self._ready.set_result(None)
            elif frame.number == 0:
                self._fail(self._trouble(frame.body.decode("utf-8", "replace")))
            elif (waiting := self._calls.get(frame.number)) is not None and not waiting.done():
                if frame.kind is Kind.DONE:
                    waiting.set_result(frame.body)
                else:
                    reason = frame.body.decode("utf-8", "replace")
                    waiting.set_exception(ServingError(self._trouble(reason)))

    async def _overhear(self) -> None:
        assert self._process.stderr is not None
        while said := await self._process.stderr.read(_LAST_WORDS):
            self._said += said
            del self._said[:-_LAST_WORDS]

    def _trouble(self, reason: str) -> str:
        said = one_line(printable(reason))
        if not self._connected:
            return (
                f"no connection to the Ray cluster at {self._address}: {said}; see that it runs, "
                "that its token is this one, and that serving.python has Ray"
            )
        return (
            f"the Ray cluster at {self._address} failed: {said}; `hpcsci resume` goes on with a "
            "new one"
        )

    def _fail(self, reason: str) -> None:
        """Fail every call, now and later; the first reason stands."""
        self.gone = self.gone or reason
        waiting: list[asyncio.Future[Any]] = [self._ready, *self._calls.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(ServingError(self.gone))


def _heard(future: asyncio.Future[Any]) -> None:
    # Lest asyncio complain of an exception that nobody awaits any more.
    if not future.cancelled():
        future.exception()


def environment(cluster: RayCluster) -> dict[str, str]:
    """The Ray process's variables: the token's file and not the token, telemetry off."""
    given = dict(os.environ)
    given |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_gcs_rpc_server_reconnect_timeout_s": _HEAD_SILENT_S,
        "PYTHONUNBUFFERED": "1",
    }
    if cluster.token_file:
        given.pop("RAY_AUTH_TOKEN", None)
        given |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": cluster.token_file}
    return given
