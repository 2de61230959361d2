"""How the endpoint of a plane is reached and used: what `hpcsci serve` prints."""

from __future__ import annotations

import json
import shlex

from hpcscientist.models.serving.order import Endpoint
from hpcscientist.models.serving.paths import ServingPaths


def card(paths: ServingPaths, endpoint: Endpoint, login: str, user: str, job_id: str) -> list[str]:
    """Return how the endpoint is reached and used, as lines for people; the key is in none.

    `login`: the machine that `hpcsci serve` was called on.
    """
    name = endpoint.models[0]
    key = shlex.quote(str(paths.key))
    body = json.dumps({"model": name, "messages": [{"role": "user", "content": "Hello"}]})
    tunnels = [f"tunnel:   {tunnel(endpoint, user)}"]
    if job_id:
        tunnels += [
            f"          from elsewhere: {tunnel(endpoint, user, login)}",
            f"          ({login}: by the name that you know it by; the key lies there too)",
        ]
    return [
        f"models:   {', '.join(endpoint.models)}",
        f"endpoint: {endpoint.url}, on {', '.join(endpoint.nodes)}",
        f"key:      in {paths.key}",
        *tunnels,
        f"ask it:   curl -sS {endpoint.url}/chat/completions "
        f"-H @<(printf 'Authorization: Bearer '; cat {key}) "
        f"-H 'Content-Type: application/json' -d {shlex.quote(body)} --noproxy 127.0.0.1",
        f"use it:   HPCSCI_API_KEY=$(cat {key}) hpcsci launch "
        f"--model {shlex.quote(f'{endpoint.url}#{name}')}",
    ]


def tunnel(endpoint: Endpoint, user: str, login: str = "") -> str:
    """Return the command that brings the endpoint to a user's own machine."""
    port = endpoint.url.rsplit(":", 1)[1].partition("/")[0]
    jump = f"-J {user}@{login} " if login else ""
    return f"ssh -N {jump}-L {port}:127.0.0.1:{port} {shlex.quote(user)}@{endpoint.head}"
