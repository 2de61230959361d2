"""A model's shape, from its config.json: what decides how much memory serving it takes.

Names of keys and the derived context follow vLLM's `transformers_utils/
model_arch_config_convertor.py` and `config/model.py` (0.32).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from hpcscientist.records.base import Record

_NESTED = ("text_config", "llm_config", "language_config")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_KV_HEADS = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
_INNER = ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size")
_EXPERT_INNER = ("moe_intermediate_size", "expert_ffn_hidden_size")
_CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_WITHOUT_KV = ("linear_attention", "mamba", "conv", "recurrent")
# What these say of the context is in max_position_embeddings already.
_SCALED = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")
# What published models leave to the defaults of transformers' classes (Gemma3TextConfig).
_UNSAID = {
    "gemma3_text": {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131_072,
    }
}
# These have a rank and whole keys and values in their cache all the same.
_NOT_LATENT = ("minicpm3",)


class Shape(Record):
    """Counts of a decoder; `context` in tokens, 0 where the model sets no limit.

    `kv_layers` keep keys and values of every token; layers with a state of fixed size do not.
    `latent` is the numbers a token and layer of models with latent attention (MLA), which every
    GPU holds whole; 0 for others. `inner` is the widest of a layer, `expert_inner` that of one of
    its experts; 0 where there are none, or where they are as wide as `inner`.
    """

    architecture: str
    layers: int
    kv_layers: int
    hidden: int
    inner: int
    expert_inner: int = 0
    heads: int
    kv_heads: int
    head_dim: int
    latent: int
    vocab: int
    dtype: str
    context: int
    quantization: str
    quantization_block: int


def read_shape(config: Mapping[str, Any]) -> tuple[Shape | None, list[str]]:
    """Return the shape and what config.json lacks; no shape where it lacks anything."""
    text = next((c for key in _NESTED if isinstance(c := config.get(key), dict)), {})
    said = {**config, **{key: value for key, value in text.items() if value is not None}}
    said = _UNSAID.get(str(said.get("model_type")), {}) | said
    lacks: list[str] = []

    def needed(keys: tuple[str, ...]) -> int:
        value = _number(said, keys)
        if value < 1:
            lacks.append(f"config.json: says no {keys[0]}")
        return value

    architectures = config.get("architectures")
    named = isinstance(architectures, list) and architectures and isinstance(architectures[0], str)
    if not named:
        lacks.append("config.json: names no architecture (architectures)")
    layers, hidden, heads = needed(_LAYERS), needed(_HIDDEN), needed(_HEADS)
    vocab = needed(("vocab_size",))
    if lacks or not isinstance(architectures, list):
        return None, lacks
    method, block = _quantization(said)
    return Shape(
        architecture=str(architectures[0]),
        layers=layers,
        kv_layers=_kv_layers(said, layers),
        hidden=hidden,
        inner=_number(said, _INNER) or 4 * hidden,
        expert_inner=_number(said, _EXPERT_INNER),
        heads=heads,
        kv_heads=_kv_heads(said, heads),
        head_dim=_head_dim(said, hidden, heads),
        latent=_latent(said),
        vocab=vocab,
        dtype=str(said.get("dtype") or said.get("torch_dtype") or "float32").removeprefix("torch."),
        context=_context(said, str(config.get("model_type"))),
        quantization=method,
        quantization_block=block,
    ), []


def _number(said: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    found = (said.get(key) for key in keys)
    return next((n for n in found if isinstance(n, int) and not isinstance(n, bool) and n > 0), 0)


def _kv_heads(said: Mapping[str, Any], heads: int) -> int:
    if said.get("multi_query") is True and not said.get("new_decoder_architecture"):
        return 1  # Falcon 7B, GPTBigCode
    return _number(said, _KV_HEADS) or heads


def _kv_layers(said: Mapping[str, Any], layers: int) -> int:
    """Count the layers with a KV cache; those of a sliding window count as whole."""
    kinds = said.get("layer_types")
    if not isinstance(kinds, list) or len(kinds) != layers:
        return layers
    return sum(not any(word in str(kind) for word in _WITHOUT_KV) for kind in kinds)


def _head_dim(said: Mapping[str, Any], hidden: int, heads: int) -> int:
    parts = [_number(said, (key,)) for key in ("qk_nope_head_dim", "qk_rope_head_dim")]
    if _number(said, ("kv_lora_rank",)) and not _latent(said) and all(parts):
        return sum(parts)
    return _number(said, ("head_dim", "hidden_size_per_head")) or max(1, hidden // heads)


def _latent(said: Mapping[str, Any]) -> int:
    rank = _number(said, ("kv_lora_rank",))
    if said.get("model_type") in _NOT_LATENT:
        return 0
    return rank + _number(said, ("qk_rope_head_dim",)) if rank else 0


def _context(said: Mapping[str, Any], model_type: str) -> int:
    known = [n for key in _CONTEXT if (n := _number(said, (key,)))]
    # Command R says both, of which this is what it was made for.
    context = _number(said, ("model_max_length",)) or min(known, default=0)
    rope = said.get("rope_scaling") or said.get("rope_parameters")
    if isinstance(rope, dict) and "gemma3" not in model_type:
        factor = rope.get("factor")
        kind = rope.get("rope_type", rope.get("type", "default"))
        if isinstance(factor, int | float) and factor > 1 and kind not in _SCALED:
            context = int(context * factor)
    return context


def _quantization(said: Mapping[str, Any]) -> tuple[str, int]:
    """Return the method and the size of blocks that tensor parallelism may not cut."""
    config = said.get("quantization_config") or said.get("compression_config")
    if not isinstance(config, dict):
        return "", 0
    method = str(config.get("quant_method") or config.get("quant_algo") or "unknown")
    groups = config.get("config_groups")  # compressed-tensors
    parts = [part for part in groups.values() if _table(part)] if _table(groups) else []
    weights = [part["weights"] for part in parts if _table(part.get("weights"))]
    return method, max(_block(one) for one in (config, *weights))


def _table(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _block(said: Mapping[str, Any]) -> int:
    """Return the widest side of a block, or a group's size; 0 where there is neither."""
    sides = said.get("weight_block_size") or said.get("block_structure")
    listed = sides if isinstance(sides, list) else [said.get("group_size")]
    return max((n for n in listed if isinstance(n, int) and n > 0), default=0)
