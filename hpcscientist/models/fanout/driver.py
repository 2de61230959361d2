"""The process in which Ray's driver lives: frames come in, Ray runs them, frames go out.

Run as a module by `fanout/process`. Its standard input is its lifeline: when that ends, so does
the process, and with it what it has on the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from typing import Any

from hpcscientist.files.text import one_line
from hpcscientist.models.fanout.frames import Frame, Kind, encode, read
from hpcscientist.models.fanout.process import Start
from hpcscientist.models.fanout.task import Hand

_NAMESPACE = "hpcsci-fan-out"
_CPUS = 0.001  # Ray 2.60 puts an actor that asks for nothing on any node, whichever it is given


class Spread:
    """Calls, each given to the hand that has the fewest."""

    def __init__(self, hands: list[Any], out: asyncio.StreamWriter) -> None:
        self._hands, self._out = hands, out
        self._load = [0] * len(hands)
        self._refs: dict[int, Any] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, number: int, call: bytes) -> None:
        """Begin a call."""
        task = self._tasks[number] = asyncio.create_task(self._run(number, call))
        task.add_done_callback(lambda _: self._tasks.pop(number))

    def cancel(self, number: int) -> None:
        """Cancel a call, if it has not ended, also one that no hand has yet."""
        import ray  # noqa: PLC0415

        if number in self._refs:
            ray.cancel(self._refs[number])
        if number in self._tasks:
            self._tasks[number].cancel()

    async def _run(self, number: int, call: bytes) -> None:
        """Have a hand answer a call, and if it is out of reach another, each at most once.

        Ray tries a call again where a hand's process has died; where its node has, Ray takes some
        seconds to know, and until then gives up at once.
        """
        from ray.exceptions import (  # noqa: PLC0415
            ActorUnavailableError,
            TaskCancelledError,
        )

        left = set(range(len(self._hands)))
        try:
            while True:
                hand = min(left, key=self._load.__getitem__)
                left.remove(hand)
                try:
                    done = await self._ask(hand, number, call)
                    break
                except ActorUnavailableError:
                    if not left:
                        raise
            send(self._out, Frame(Kind.DONE, number, done))
        except TaskCancelledError:
            send(self._out, Frame(Kind.LOST, number, b"the task was cancelled"))
        except Exception as error:  # noqa: BLE001 - Ray raises all kinds; who asked waits for it
            send(self._out, Frame(Kind.LOST, number, _words(error)))
        finally:
            self._refs.pop(number, None)

    async def _ask(self, hand: int, number: int, call: bytes) -> bytes:
        """Return a hand's answer. Raises RayError."""
        self._load[hand] += 1
        try:
            self._refs[number] = self._hands[hand].attempt.remote(call)
            answer: bytes = await self._refs[number]
            return answer
        finally:
            self._load[hand] -= 1


def connect(start: Start) -> list[Any]:
    """Connect to the cluster and return a hand for each of its nodes."""
    import ray  # noqa: PLC0415
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    ray.init(
        address=start.address,
        namespace=_NAMESPACE,
        log_to_driver=False,
        configure_logging=False,
        logging_level=logging.ERROR,
    )
    nodes = sorted(node["NodeID"] for node in ray.nodes() if node["Alive"])
    # Next to no CPU is asked for: hands wait for replies, and what Ray has belongs to the engines.
    # Soft: where its node is lost, a hand starts again on another.
    return [
        ray.remote(Hand)
        .options(
            num_cpus=_CPUS,
            max_concurrency=start.width,
            max_restarts=-1,
            max_task_retries=start.retries,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True),
        )
        .remote(start.width)
        for node in nodes
    ]


async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
    """Do what the frames say until there are no more."""
    first = await read(reader)
    if first is None:
        return
    start = Start.model_validate_json(first.body)
    try:
        hands = connect(start)
        async with asyncio.timeout(start.ready_s):
            for ready in [hand.ready.remote() for hand in hands]:
                await ready
    except TimeoutError:
        said = f"its processes were not up within {start.ready_s:g} s".encode()
        send(out, Frame(Kind.LOST, body=said))
        return
    except Exception as error:  # noqa: BLE001 - Ray raises all kinds
        send(out, Frame(Kind.LOST, body=_words(error)))
        return
    send(out, Frame(Kind.READY))
    spread = Spread(hands, out)
    while (frame := await read(reader)) is not None:
        if frame.kind is Kind.RUN:
            spread.start(frame.number, frame.body)
        elif frame.kind is Kind.CANCEL:
            spread.cancel(frame.number)


def send(out: asyncio.StreamWriter, frame: Frame) -> None:
    """Write a frame out; `width` bounds what can lie in the buffer."""
    out.write(encode(frame))


async def main() -> None:
    """Keep standard output for frames alone, and serve."""
    frames = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, frames)
    out = asyncio.StreamWriter(transport, protocol, None, loop)
    await serve(reader, out)
    with contextlib.suppress(ConnectionError):
        await out.drain()
    transport.close()


def _words(error: BaseException) -> bytes:
    return one_line(f"{type(error).__name__}: {error}").encode()


if __name__ == "__main__":
    asyncio.run(main())
