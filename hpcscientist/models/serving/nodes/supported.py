"""Asked of the interpreter that serves: has it the engine, and does that know an architecture?

Run as `python -m hpcscientist.models.serving.nodes.supported ARCHITECTURE`; prints one line of
JSON. It imports nothing of this package, so that its text can be given to any interpreter.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import json
import sys
from typing import Any

# Where vLLM has the server that is run for each replica: newer releases (0.29 and up), older ones.
SERVERS = ("vllm.entrypoints.launchers.api_server.entry", "vllm.entrypoints.openai.api_server")
ARGUMENTS = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
PARSERS = ("vllm.utils.argparse_utils",)
# What else serving imports beside vLLM, which brings them all.
BESIDE = ("aiohttp", "cryptography", "uvloop")


def examine(architecture: str) -> dict[str, Any]:
    """Return versions, whether the architecture is known, and what went wrong ("" for nothing)."""
    said: dict[str, Any] = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "vllm": "",
        "ray": "",
        "known": False,
        "writes": False,
        "lacks": [],
        "fault": "",
    }
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        said["ray"] = importlib.metadata.version("ray")
    try:
        vllm = importlib.import_module("vllm")
        registry = importlib.import_module("vllm.model_executor.models.registry")
    except ModuleNotFoundError as error:
        said["fault"] = f"no module {error.name}"
    except Exception as error:  # noqa: BLE001 (a broken installation fails in any way)
        said["fault"] = f"{type(error).__name__}: {error}"
    else:
        said["vllm"] = vllm.__version__
        said |= _known(architecture, registry)
        said["lacks"] = _lacking()
    return said


def _lacking() -> list[str]:
    """Return what serving needs and does not find there, by the names of modules."""
    found = [any(map(_is_there, listed)) for listed in (SERVERS, ARGUMENTS, PARSERS)]
    servers = [
        listed[0]
        for listed, is_there in zip((SERVERS, ARGUMENTS, PARSERS), found, strict=True)
        if not is_there
    ]
    return [*servers, *(name for name in BESIDE if not _is_there(name))]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # nor is what it is a part of
        return False


def _known(architecture: str, registry: Any) -> dict[str, bool]:
    """Return what the registry says, or transformers, by which vLLM runs what it lacks itself."""
    if architecture in registry.ModelRegistry.get_supported_archs():
        own = getattr(registry, "_VLLM_MODELS", {})
        writing = {
            name
            for table in ("_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS")
            for name in getattr(registry, table, {})
        }
        return {"known": True, "writes": architecture not in own or architecture in writing}
    found = getattr(importlib.import_module("transformers"), architecture, None)
    compatible = getattr(found, "is_backend_compatible", bool)()
    return {"known": bool(compatible), "writes": architecture.endswith("ForCausalLM")}


if __name__ == "__main__":
    print(json.dumps(examine(sys.argv[1])))
