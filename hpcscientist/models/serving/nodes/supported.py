"""Runs in the serving interpreter: reports which engine it has, and how that reads a model.

Run as `python -m hpcscientist.models.serving.nodes.supported ARCHITECTURE` with the model's
config.json as standard input; prints one line of JSON. It imports nothing of this package, so its
source can be passed to any interpreter (`python -c SOURCE ARCHITECTURE`).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

# Where vLLM has the server that runs for each replica: newer releases (0.29 and up), older ones.
SERVERS = ("vllm.entrypoints.launchers.api_server.entry", "vllm.entrypoints.openai.api_server")
ARGUMENTS = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
PARSERS = ("vllm.utils.argparse_utils",)
# Other modules that serving imports; vLLM depends on them all.
BESIDE = ("aiohttp", "cryptography", "uvloop")
# Values that configuration classes compute and do not write to config.json.
_COMPUTED = ("layers_block_type", "layer_types", "num_hidden_layers", "num_attention_heads")


def examine(architecture: str, config: str) -> dict[str, Any]:
    """Return versions, whether the architecture is known, the fault, and the text model's config.

    `fault` is "" if nothing went wrong. `config` is what the engine reads from config.json for the
    text model.
    """
    said: dict[str, Any] = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "vllm": "",
        "ray": "",
        "known": False,
        "writes": False,
        "lacks": [],
        "fault": "",
        "config": {},
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
        # An engine that cannot read it says why when it starts; other models do not need it.
        with contextlib.suppress(Exception):
            said["config"] = _read(config)
    return said


def _lacking() -> list[str]:
    """Return the names of modules that serving needs and that are missing."""
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
    except ImportError:  # its parent package is missing too
        return False


def _known(architecture: str, registry: Any) -> dict[str, bool]:
    """Return what the registry says, or transformers, which vLLM uses for models it lacks."""
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


def _read(config: str) -> dict[str, Any]:
    """Return the configuration of the text model, with what its class fills in and computes."""
    reading = importlib.import_module("vllm.transformers_utils.config")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(config, encoding="utf-8")
        whole = reading.get_config(folder, trust_remote_code=False)
    text = reading.get_hf_text_config(whole)
    said: dict[str, Any] = text.to_dict()
    said.pop("dtype", None)  # the part's own; the weights' dtype is in config.json
    for name in _COMPUTED:
        with contextlib.suppress(Exception):
            said[name] = getattr(text, name)
    with contextlib.suppress(Exception):  # vLLM's own counts; not every version has them
        said |= _counts(whole, text)
    return dict(json.loads(json.dumps(said, default=str)))


def _counts(whole: Any, text: Any) -> dict[str, Any]:
    counting = importlib.import_module("vllm.transformers_utils.model_arch_config_convertor")
    base = counting.ModelArchConfigConvertorBase
    kind = counting.MODEL_ARCH_CONFIG_CONVERTORS.get(whole.model_type, base)
    found = kind(whole, text).convert()
    layers = [found[n] for n in range(found.total_num_hidden_layers)]
    # A model that vLLM runs through transformers has a latent cache whenever it has a rank.
    registry = importlib.import_module("vllm.model_executor.models.registry")
    is_own = set(found.architectures) & set(registry.ModelRegistry.get_supported_archs())
    has_rank = getattr(text, "kv_lora_rank", None) is not None
    said: dict[str, Any] = {
        "num_hidden_layers": found.total_num_hidden_layers,
        "num_attention_heads": found.total_num_attention_heads,
        "num_key_value_heads": [layer.total_num_kv_heads for layer in layers],
        "is_deepseek_mla": found.is_deepseek_mla if is_own else has_rank,
    }
    if not has_rank:
        said["head_dim"] = [layer.head_size for layer in layers]
    return said


if __name__ == "__main__":
    print(json.dumps(examine(sys.argv[1], sys.stdin.read())))
