"""The gate before the endpoint: who does not show the key learns nothing.

Ray Serve LLM has no such check of its own (its maintainers' advice is a middleware like this
one), and any user of a shared node reaches an open port, on the loopback address too. The gate
stands in each node's proxy, before what Ray Serve itself would answer (`/-/routes`,
`/-/healthz`), and once more before the models.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from hpcscientist.models.serving import secrets

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_BODY = json.dumps(
    {"error": {"message": "wrong or missing API key", "type": "authentication_error", "code": 401}}
).encode()


# What Ray Serve's proxies call for what stands before them, and what tells it the key's file.
PROXY_CALLBACK = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
KEY_FILE = "HPCSCI_PLANE_KEY_FILE"


def before_proxy() -> list[Any]:
    """Return the gate in the form in which Ray Serve's proxies take it. Raises ServingError."""
    from starlette.middleware import Middleware  # noqa: PLC0415 (Ray Serve brings it)

    return [Middleware(Gate, key=os.environ[KEY_FILE])]


def variables(key: Path) -> dict[str, str]:
    """Return the variables by which proxies come to have the gate."""
    return {PROXY_CALLBACK: f"{__name__}:{before_proxy.__name__}", KEY_FILE: str(key)}


class Gate:
    """An ASGI middleware that lets through what carries `Authorization: Bearer KEY`."""

    def __init__(self, app: App, key: str) -> None:
        """`key`: the file that holds it. Raises ServingError."""
        self._app = app
        self._wanted = b"Bearer " + secrets.read(Path(key)).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401."""
        if scope["type"] == "lifespan" or self._is_allowed(scope):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": _BODY})

    def _is_allowed(self, scope: Scope) -> bool:
        shown = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
        # In constant time, so that nobody can guess it byte by byte.
        return len(shown) == 1 and hmac.compare_digest(shown[0], self._wanted)
