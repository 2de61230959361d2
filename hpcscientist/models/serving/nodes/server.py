"""The engine's own server, for one replica: what `vllm serve` runs, behind the key.

    python -m hpcscientist.models.serving.nodes.server SERVER

SERVER is a file that holds a `ServerSpec`. The process writes its address into a file once it has a
port. It ends, together with its engine, when the other end of its standard input is closed.

vLLM's server is started by the names that its own command line uses, and not through
`ray.serve.llm`: each release of that works with one vLLM only (Ray 2.60 requires exactly 0.29).
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpcscientist.errors import ServingError
from hpcscientist.files.atomic import write_text
from hpcscientist.models.serving.nodes import supported
from hpcscientist.models.serving.nodes.offline import Gate
from hpcscientist.models.serving.order import ServedModel
from hpcscientist.records.base import Record

# If a grammar allows any white space between the parts of JSON, a reply need not end: 2 of 235 from
# Qwen2.5-Coder-1.5B filled their limit with blanks. vLLM forbids them only for a named backend.
_COMPACT = json.dumps({"backend": "xgrammar", "disable_any_whitespace": True})


class ServerSpec(Record):
    """What one server serves. `host` is the address it listens on, at a free port.

    `certificate` and `certificate_key` are files, "" for no TLS; the server writes its own address
    into the file `address`.
    """

    model: ServedModel
    host: str
    address: Path
    certificate: str = ""
    certificate_key: str = ""


def main(arguments: Sequence[str]) -> None:
    """Serve until the process that started this one is gone."""
    given = ServerSpec.model_validate_json(Path(arguments[0]).read_bytes())
    threading.Thread(target=_end_with_starter, daemon=True).start()
    serve, parsers, parser = (
        _found("run_server", supported.SERVERS),
        _found("make_arg_parser", supported.ARGUMENTS),
        _found("FlexibleArgumentParser", supported.PARSERS),
    )
    args = parsers(parser()).parse_args(["--structured-outputs-config", _COMPACT])
    for name, value in _wanted(given).items():
        if not hasattr(args, name):
            raise ServingError(f"serving.engine.{name}: this vLLM has no such argument")
        setattr(args, name, value)
    scheme = "https" if given.certificate else "http"
    write_text(given.address, f"{scheme}://{given.host}:{args.port}/v1\n", durable=False)
    import uvloop  # noqa: PLC0415 (vLLM brings it)

    uvloop.run(serve(args))


def _wanted(given: ServerSpec) -> dict[str, Any]:
    """Return the arguments of the engine and of its server, by name."""
    own = {
        "model": given.model.folder,
        "served_model_name": [given.model.name],
        "host": given.host,
        "port": _free_port(given.host),
        "middleware": [f"{Gate.__module__}.{Gate.__qualname__}"],
        "ssl_certfile": given.certificate or None,
        "ssl_keyfile": given.certificate_key or None,
        "disable_uvicorn_access_log": True,
        "uvicorn_log_level": "warning",
    }
    return {**given.model.engine, **own}


def _free_port(host: str) -> int:
    # vLLM binds the port some moments later, before it loads anything.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _found(name: str, modules: Sequence[str]) -> Any:
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ServingError(f"this vLLM has no {name}: take one that pyproject.toml names")


def _end_with_starter() -> None:
    """End this process and its engine, which have a session of their own, with the starter."""
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
