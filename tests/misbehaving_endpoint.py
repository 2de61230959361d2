"""A real HTTP server for tests that answers as scripted, byte for byte, also wrongly."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self

Act = Callable[["Endpoint", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


def raw(data: bytes) -> Act:
    """Send these bytes unchanged and close."""

    async def act(endpoint: Endpoint, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return act


def answer(
    body: Any, status: int = 200, headers: dict[str, str] | None = None, missing: int = 0
) -> Act:
    """Send a JSON body (bytes unchanged); `missing` bytes are announced but never sent."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [
        f"HTTP/1.1 {status} X",
        "Content-Type: application/json",
        f"Content-Length: {len(content) + missing}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    return raw("\r\n".join(lines).encode() + b"\r\n\r\n" + content)


def completion(text: str | None, **more: Any) -> dict[str, Any]:
    """Return a completion's body. `more` overrides fields; `usage=None` leaves `usage` out."""
    body = {
        "model": "tiny",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
        **more,
    }
    return {key: value for key, value in body.items() if value is not None}


def models(*names: str) -> Act:
    return answer({"object": "list", "data": [{"id": name} for name in names]})


def error(status: int, message: str, headers: dict[str, str] | None = None) -> Act:
    return answer({"error": {"message": message, "type": "x"}}, status, headers)


async def hang(endpoint: Endpoint, writer: asyncio.StreamWriter) -> None:
    """Accept the request and send nothing until the server closes."""
    endpoint.hanging.set()
    await endpoint.closing.wait()


async def trickle(endpoint: Endpoint, writer: asyncio.StreamWriter) -> None:
    """Send single bytes without end, faster than any idle timeout."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{")
    while not endpoint.closing.is_set():
        writer.write(b" ")
        await writer.drain()  # raises once the client has gone
        await asyncio.sleep(0.005)


async def reset(endpoint: Endpoint, writer: asyncio.StreamWriter) -> None:
    """Answer the request with a TCP reset."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Endpoint:
    """A scripted endpoint; use it as `async with Endpoint() as endpoint`.

    `script` holds the reaction to each POST in order; its last entry repeats. `models` is the
    reaction to each GET.
    """

    def __init__(self) -> None:
        self.script: list[Act] = [answer(completion("ok"))]
        self.models: Act = models("tiny")
        self.seen: list[Seen] = []
        self.active = 0
        self.most_active = 0
        self.closing = asyncio.Event()
        self.hanging = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def posts(self) -> list[Seen]:
        return [seen for seen in self.seen if seen.method == "POST"]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closing.set()
        self._server.close()
        await asyncio.gather(*self._tasks)
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        pairs = (line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        self.seen.append(Seen(method, path, headers, json.loads(content or b"{}")))
        self.active += 1
        self.most_active = max(self.active, self.most_active)
        try:
            if method == "GET":
                await self.models(self, writer)
            else:
                index = min(len(self.posts), len(self.script)) - 1
                await self.script[index](self, writer)
        finally:
            self.active -= 1
