"""The environment of all serving processes: no hub, no telemetry, no proxy, no outgoing traffic.

It also closes them to others: Ray gets the path of its token, servers that of the key.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from hpcscientist.config.layers import KEY_VARIABLES
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.order import ServingPaths

# The gate before an engine's server: requests without the key get no information.
#
# vLLM's own check (`--api-key`) leaves `/health`, `/metrics`, `/version` and others open, and
# any user of a shared node can reach an open port, on the loopback address too.


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


# For whatever opens a model. Each variable is read by the library in its name.
HUBS = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",  # else it warns in every process that is forked later
}
# For whatever serves one.
QUIET = {
    **HUBS,
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
    # Ray's metrics ports do not check the token. Two servers of a head cannot be switched off;
    # with an impossible port they log an error and continue without one.
    "RAY_enable_metrics_collection": "0",
    "AUTOSCALER_METRIC_PORT": "65536",
    "DASHBOARD_METRIC_PORT": "65536",
    "OTEL_SDK_DISABLED": "true",
    # Ray monitors the whole machine's memory, and would kill engines for what others use.
    "RAY_memory_monitor_refresh_ms": "0",
    # Ray starts its processes at the lowest priority; engines have work to do as others have.
    "RAY_worker_niceness": "0",
}
_DROPPED = frozenset(
    # A cluster's proxy, another Ray that this shell may belong to, keys of other services.
    {
        *("http_proxy", "https_proxy", "all_proxy"),
        *("ray_address", "ray_namespace", "ray_auth_token"),
        *(name.lower() for name in KEY_VARIABLES),
    }
)


def environment(given: Mapping[str, str], paths: ServingPaths) -> dict[str, str]:
    """Return the variables that a node's processes start with."""
    kept = {name: value for name, value in given.items() if name.lower() not in _DROPPED}
    ray = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(paths.token)}
    return kept | QUIET | ray | {KEY_FILE: str(paths.key)}
