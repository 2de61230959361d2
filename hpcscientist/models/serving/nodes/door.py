"""A node's door to all models of a plane: one loopback address, for people and programs.

    python -m hpcscientist.models.serving.nodes.door ORDER

A request goes to the replica of its model with the fewest of this door's requests in flight. A
campaign's own driver connects to the replicas directly.
"""

from __future__ import annotations

import hmac
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
from aiohttp import web

from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.order import Order, ServingPaths
from hpcscientist.models.serving.replicas import Replicas

_LONGEST = 64 * 2**20  # bytes of a request
# Headers of one connection only (RFC 9110, 7.6.1), or created anew for the other connection.
_NOT_PASSED = frozenset(
    ("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host")
)
_CONNECT_S = 10.0


class Door:
    """A proxy that admits requests with the key."""

    def __init__(self, paths: ServingPaths) -> None:
        """Read the key. Raises ServingError where it cannot be read."""
        self._paths = paths
        self._wanted = f"Bearer {secrets.read(paths.key)}".encode()
        self._replicas = Replicas(paths)
        self._in_flight = Counter[str]()

    def application(self) -> web.Application:
        """Return the web application that answers requests."""
        made = web.Application(client_max_size=_LONGEST)
        made.router.add_route("*", "/{path:.*}", self._answer)
        made.cleanup_ctx.append(self._connections)
        return made

    async def _connections(self, _: web.Application) -> AsyncIterator[None]:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=limits, auto_decompress=False
        ) as self._session:
            yield

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        shown = request.headers.getall("Authorization", [])
        # In constant time, so that the key cannot be guessed byte by byte.
        if len(shown) != 1 or not hmac.compare_digest(shown[0].encode(), self._wanted):
            return _refusal(401, "wrong or missing API key", "authentication_error")
        body = await request.read()
        contexts = self._replicas.contexts()
        if request.path == "/v1/models" and request.method == "GET":
            listed = [
                {"id": name, "object": "model", "owned_by": "hpcscientist", "max_model_len": tokens}
                for name, tokens in contexts.items()
            ]
            return web.json_response({"object": "list", "data": listed})
        name = _model(body) or next(iter(contexts), "")
        if name not in contexts:
            known = ", ".join(contexts) or "none"
            return _refusal(404, f"The model `{name}` does not exist; there are: {known}")
        return await self._pass_on(request, body, name)

    async def _pass_on(self, request: web.Request, body: bytes, name: str) -> web.StreamResponse:
        """Try the replicas in turn until one accepts the request."""
        urls = sorted(self._replicas.of(name), key=self._in_flight.__getitem__)
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in _NOT_PASSED]
        why = "no replica of it answers now; see the plane's logs"
        for url in urls:
            self._in_flight[url] += 1
            try:
                async with self._session.request(
                    request.method,
                    url.removesuffix("/v1") + str(request.rel_url),
                    headers=headers,
                    data=body,
                    allow_redirects=False,
                    ssl=self._replicas.believed() if url.startswith("https:") else True,
                ) as answer:
                    return await _hand_back(request, answer)
            except aiohttp.ClientConnectorError as error:
                why = str(error)
            finally:
                self._in_flight[url] -= 1
        return _refusal(503, f"{name}: {why}")


async def _hand_back(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """Pass on an answer piece by piece, as it arrives."""
    passed = [(k, v) for k, v in answer.headers.items() if k.lower() not in _NOT_PASSED]
    response = web.StreamResponse(status=answer.status, headers=dict(passed))
    await response.prepare(request)
    async for piece in answer.content.iter_any():
        await response.write(piece)
    await response.write_eof()
    return response


def _model(body: bytes) -> str:
    """Return the model that a request names, "" if it names none."""
    try:
        asked = json.loads(body) if body else None
    except ValueError:
        return ""
    name = asked.get("model") if isinstance(asked, dict) else None
    return name if isinstance(name, str) else ""


def _refusal(status: int, said: str, kind: str = "invalid_request_error") -> web.Response:
    error = {"message": said, "type": kind, "code": status}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return web.json_response({"error": error}, status=status, headers=headers)


def main(arguments: Sequence[str]) -> None:
    """Serve until asked to end."""
    order = Order.model_validate_json(Path(arguments[0]).read_bytes())
    door = Door(ServingPaths(order.folder))
    web.run_app(
        door.application(),
        host="127.0.0.1",
        port=order.ports.http,
        access_log=None,
        print=None,
        handler_cancellation=True,  # a client that disconnects cancels its request
    )


if __name__ == "__main__":
    main(sys.argv[1:])
