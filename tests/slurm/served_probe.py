"""What a stranger gets from the ports of a model plane: run as another user, without its secrets.

    python served_probe.py HOST PORT...

prints by port what became of the connection: refused, silent, closed, or what was answered to
HTTP requests (by TLS where that alone is spoken) and, where gRPC is spoken, to a call of every
method that Ray has. The interpreter needs Ray's own gRPC.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import socket
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SILENCE_S = 5.0
PATHS = (
    *("/v1/models", "/v1/chat/completions", "/", "/docs", "/openapi.json", "/metrics"),
    *("/health", "/version", "/api/jobs/", "/api/version", "/api/healthz", "/nodes"),
    *("/api/local_raylet_healthz", "/get_or_create_runtime_env", "/api/serve/applications/"),
)
# Ray's Python has no stubs for this one.
OBJECTS = tuple(f"/ray.rpc.ObjectManagerService/{name}" for name in ("Push", "Pull", "FreeObjects"))
HEALTH = "/grpc.health.v1.Health/Check"  # says that a server lives, and nothing else


def main() -> None:
    """Try each port, several at once."""
    host, ports = sys.argv[1], sys.argv[2:]
    known = methods()
    with ThreadPoolExecutor(8) as pool:
        tries = {port: pool.submit(probe, host, int(port), known) for port in ports}
    print(json.dumps({port: given.result() for port, given in tries.items()}))


def methods() -> list[str]:
    """Return the gRPC methods of all of Ray's services."""
    found = importlib.util.find_spec("ray")
    assert found is not None and found.origin is not None
    stubs = Path(found.origin).parent.glob("*/generated/*_pb2_grpc.py")
    named = {m for stub in stubs for m in re.findall(r"'(/[\w.]+/\w+)'", stub.read_text())}
    return sorted({*named, *OBJECTS, HEALTH})


def probe(host: str, port: int, known: list[str]) -> dict[str, Any]:
    """Return what one port gives."""
    for secret in (False, True):
        first = ask(host, port, PATHS[0], secret)
        if first[:1] == b"H":
            given = {path: http(host, port, path, secret) for path in PATHS}
            return {"said": "http", "http": given}
        word = first.decode("latin-1")
        if word != "closed":
            break  # whoever closes at once may speak TLS alone
    return {"said": word} if word in ("refused", "silent", "closed") else grpc(host, port, known)


def ask(host: str, port: int, path: str, secret: bool) -> bytes:
    """Send one HTTP request; return the answer's beginning, or one word. `secret`: by TLS."""
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    try:
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection((host, port), SILENCE_S))
            if secret:
                connection = stack.enter_context(anybody.wrap_socket(connection))
            connection.sendall(request.encode())
            found = b""
            while len(found) < 65536 and (more := connection.recv(65536)):
                found += more
                if found[:5] != b"HTTP/":
                    break
            return found or b"closed"
    except TimeoutError:
        return b"silent"
    except ConnectionRefusedError:
        return b"refused"
    except (ConnectionError, ssl.SSLError):
        return b"closed"


def http(host: str, port: int, path: str, secret: bool) -> str:
    """Return the status of the answer, with its body where that is a success."""
    head, _, body = ask(host, port, path, secret).partition(b"\r\n\r\n")
    status = head.split(b" ")[1].decode() if head.startswith(b"HTTP/") else head.decode("latin-1")
    return f"{status} {body.decode('latin-1')}" if status.startswith("2") else status


def grpc(host: str, port: int, known: list[str]) -> dict[str, Any]:
    """Call every method with an empty message; return by status which gave it, but for the usual.

    `services`: those that asked for authentication.
    """
    import grpc as library  # noqa: PLC0415 (where no port speaks it, it is not needed)

    refused, others = set(), dict[str, str]()
    with library.insecure_channel(f"{host}:{port}") as channel:
        try:
            library.channel_ready_future(channel).result(SILENCE_S)
        except library.FutureTimeoutError:
            return {"said": "unknown"}
        for method in known:
            try:
                channel.unary_unary(method)(b"", timeout=SILENCE_S * 4)
                others[method] = "OK"
            except library.RpcError as error:
                if error.code().name == "UNAUTHENTICATED":
                    refused.add(method.split("/")[1])
                elif error.code().name != "UNIMPLEMENTED":
                    others[method] = f"{error.code().name}: {error.details()}"
    return {"said": "grpc", "services": sorted(refused), "others": others}


if __name__ == "__main__":
    main()
