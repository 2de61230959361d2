"""The gate before an engine's server: requests without the key get no information.

vLLM's own check (`--api-key`) leaves `/health`, `/metrics`, `/version` and others open, and any
user of a shared node can reach an open port, on the loopback address too.
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


KEY_FILE = "HPCSCI_PLANE_KEY_FILE"  # names the file with the key, for a server


class Gate:
    """An ASGI middleware that admits requests with `Authorization: Bearer KEY`."""

    def __init__(self, app: App) -> None:
        """Read the key from the file that a variable names. Raises ServingError."""
        self._app = app
        self._wanted = b"Bearer " + secrets.read(Path(os.environ[KEY_FILE])).encode()

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
        # In constant time, so that the key cannot be guessed byte by byte.
        return len(shown) == 1 and hmac.compare_digest(shown[0], self._wanted)
