"""One HTTP/1.1 connection that is kept for further requests: asyncio's streams, read by h11.

httpx (0.28) would do, but for its pool: for each request it looks at all connections there are, at
each by a system call. With 64 requests in flight that came to 3 ms of the driver's one thread a
request, with 256 to 20 ms; this takes 0.3 ms with any number.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11

_CHUNK = 2**16  # bytes


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response; names of headers are in lower case."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes


class BrokenConnection(Exception):
    """The other side closed the connection too early, or what it sent is no HTTP."""


class TooLong(Exception):
    """A response has more bytes than may be."""


class Connection:
    """A connection to the server of a URL. One request at a time; belongs to one event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)

    @classmethod
    async def open(cls, url: str, believed: ssl.SSLContext | None, timeout_s: float) -> Connection:
        """Connect; `believed` says which servers are, None without TLS. Raises OSError.

        TimeoutError, which is one, is raised after `timeout_s`.
        """
        parts = urlsplit(url)
        port = parts.port or (443 if believed else 80)
        connecting = asyncio.open_connection(parts.hostname, port, ssl=believed)
        return cls(*await asyncio.wait_for(connecting, timeout_s))

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent, as far as is known."""
        return self._http.our_state is h11.IDLE and not self._reader.at_eof()

    async def ask(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, most: int
    ) -> Response:
        """Send one request and return the response, of at most so many bytes.

        Whoever is interrupted here closes the connection. Raises OSError, BrokenConnection,
        TooLong.
        """
        parts = urlsplit(url)
        length = {"Content-Length": str(len(body))} if body else {}
        sent = [("Host", parts.netloc), *headers.items(), *length.items()]
        request = h11.Request(method=method, target=parts.path or "/", headers=sent)
        try:
            pieces = [self._http.send(request)]
            pieces += [self._http.send(h11.Data(body))] if body else []
            pieces.append(self._http.send(h11.EndOfMessage()))
            self._writer.write(b"".join(piece for piece in pieces if piece))
            return await self._answer(most)
        except h11.ProtocolError as error:
            raise BrokenConnection(str(error)) from error

    def close(self) -> None:
        """Close it, without a word to the other side."""
        with contextlib.suppress(RuntimeError):  # its loop has been closed
            self._writer.close()

    async def _answer(self, most: int) -> Response:
        status, headers, content = 0, dict[bytes, bytes](), bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_CHUNK))
            elif isinstance(event, h11.Response):
                status, headers = event.status_code, dict(event.headers)
            elif isinstance(event, h11.Data):
                content += event.data
                if len(content) > most:
                    raise TooLong
            elif isinstance(event, h11.EndOfMessage):
                break
            elif isinstance(event, h11.ConnectionClosed):
                raise BrokenConnection("it was closed before an answer came")
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return Response(status, headers, bytes(content))
