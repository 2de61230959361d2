"""A model's shape, from its config.json: the numbers that decide how much memory serving takes.

Names of keys and the derived context follow vLLM's
`transformers_utils/model_arch_config_convertor.py` and `config/model.py` (0.32), and the
configuration classes of transformers where vLLM uses those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from hpcscientist.records.base import Record

# Defaults from the configuration classes of transformers, for published models that omit values.
#
# These are the text models of larger ones, whose config.json gives only what differs. The engine
# knows them all; this table is for machines without an engine to ask.

_LLAMA = {
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "intermediate_size": 11_008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}
_MISTRAL = {
    **_LLAMA,
    "intermediate_size": 14_336,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131_072,
    "sliding_window": 4096,
}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": _LLAMA,
    "mistral": _MISTRAL,
    "gemma2": {"sliding_window": 4096, "sliding_window_pattern": 2},
    "gemma3_text": {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131_072,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
    },
    "cohere2": {"sliding_window": 4096, "sliding_window_pattern": 4},
    "qwen3_next": {"full_attention_interval": 4},
}


_NESTED = ("thinker_config", "text_config", "llm_config", "language_config", "llm_cfg")
_LAYERS = (
    *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers"),
    "num_blocks",
)
_MOST_LAYERS = 10_000
_HIDDEN = ("hidden_size", "n_embd", "d_model", "model_dim", "embedding_dim", "n_embed")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_query_heads", "num_heads")
_KV_HEADS = (
    *("n_head_kv", "num_kv_heads", "kv_n_heads", "num_key_value_heads"),
    *("num_key_value_heads_per_layer", "multi_query_group_num", "num_attention_groups"),
)
_HEAD_DIM = ("head_dim", "hidden_size_per_head", "attention_head_dim", "kv_channels")
_INNER = ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size")
_EXPERT_INNER = ("moe_intermediate_size", "expert_ffn_hidden_size")
_GLOBAL = "num_global_key_value_heads"
_VOCAB = ("vocab_size", "padded_vocab_size")
_WINDOW = ("sliding_window", "sliding_window_size", "attention_window_size")
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
# With these scalings, max_position_embeddings is the scaled context already.
_SCALED = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")
# These have a rank, but whole keys and values in their cache.
_NOT_LATENT = ("minicpm3",)
_TWICE = ("longcat_flash",)  # two attentions a layer
_ALL_WINDOWS = ("mistral", "mixtral", "phi3", "phimoe", "starcoder2")  # in every layer
_BESIDE = ("falcon_h1",)  # attention beside a state in every layer
_ALONE = ("mamba", "rwkv", "xlstm")  # no layer has attention, and no heads are given
# Parts of the words for layers, and what such a layer keeps; the first match counts.
_KEEPS = (
    *((part, "state") for part in ("linear", "mamba", "conv", "recurrent", "ssm", "kda", "rwkv")),
    *((part, "window") for part in ("sliding", "swa")),
    *(("hybrid", "both"), ("attention", "all")),
    *((part, "") for part in ("mlp", "moe", "none")),
)
_LETTERS = {"M": "state", "*": "all", "-": "", "E": ""}  # of Nemotron-H's pattern
# Of a state: its width (products of keys), its depth, and the tokens that its convolution covers.
_WIDE = (
    *(("linear_num_value_heads", "linear_value_head_dim"), ("mamba_num_heads", "mamba_head_dim")),
    *(("mamba_n_heads", "mamba_d_head"), ("n_mamba_heads", "mamba_headdim")),
    *(("mamba_expand", "hidden_size"), ("num_heads", "head_dim"), ("expand", "hidden_size")),
    ("num_attention_heads", "head_dim"),
)
_DEEP = (
    *("linear_key_head_dim", "mamba_d_state", "ssm_state_size", "state_size", "d_state"),
    *("head_dim", "head_size"),
)
_KERNEL = (
    *("linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel", "conv_L_cache", "d_conv"),
    "short_conv_kernel_size",
)


class LayerCache(Record):
    """The numbers that one layer keeps of a sequence in the KV cache.

    For each token these are `heads` times `size`; `size` is a head's key and value together, or the
    one latent vector of MLA. If `window` is not 0, only the last `window` tokens are kept. `state`
    has a fixed size, of which this is an upper bound.
    """

    heads: int = 0
    size: int = 0
    window: int = 0
    state: int = 0


class DecoderShape(Record):
    """Counts of a decoder; `context` in tokens, 0 if the model sets no limit.

    `caches` has an entry for each layer, in order. `inner` is the widest inner width of a layer,
    `expert_inner` that of one expert; 0 if there are no experts, or if they are as wide as `inner`.
    `heads`, which tensor parallelism divides, is 0 if no layer has attention. `kv_bits` is the size
    of a number in the KV cache if the weights come with scales for it, and 0 if it is the engine's
    dtype.
    """

    architecture: str
    hidden: int
    inner: int
    expert_inner: int = 0
    heads: int
    caches: tuple[LayerCache, ...]
    vocab: int
    dtype: str
    context: int
    quantization: str
    quantization_block: int
    kv_bits: int = 0

    @property
    def layers(self) -> int:
        """The number of layers, whatever they keep."""
        return len(self.caches)


def read_shape(
    config: Mapping[str, Any], engine: Mapping[str, Any] | None = None
) -> tuple[DecoderShape | None, list[str]]:
    """Return the shape and what config.json lacks; the shape is None if anything is lacking.

    `engine` is the serving engine's view of the text model's part; it takes precedence.
    """
    said = _flattened(config) | dict(engine or {})
    lacks: list[str] = []

    def needed(keys: tuple[str, ...], value: int) -> int:
        if value < 1:
            lacks.append(f"config.json: says no {keys[0]}")
        return value

    architectures = config.get("architectures")
    named = isinstance(architectures, list) and architectures and isinstance(architectures[0], str)
    if not named:
        lacks.append("config.json: names no architecture (architectures)")
    words = _layer_words(said)
    layers = needed(_LAYERS, _number(said, _LAYERS) or len(words))
    if layers > _MOST_LAYERS:
        lacks.append(f"config.json: {layers} layers, which no model has")
        return None, lacks
    hidden = needed(_HIDDEN, _number(said, _HIDDEN))
    alone = any(part in str(said.get("model_type")) for part in _ALONE)
    heads = 0 if alone else math.gcd(*_numbers(said, _HEADS))
    keeps = ["state"] * layers if alone else _layer_kinds(said, words, layers)
    if set(keeps) - {"state", ""}:
        needed(_HEADS, heads)
    vocab = needed(_VOCAB, _number(said, _VOCAB))
    if lacks or not isinstance(architectures, list):
        return None, lacks
    method, block, kv_bits = _quantization(said)
    return DecoderShape(
        architecture=str(architectures[0]),
        hidden=hidden,
        inner=_number(said, _INNER) or 4 * hidden,
        expert_inner=_number(said, _EXPERT_INNER),
        heads=heads,
        caches=_layer_caches(said, keeps, hidden),
        vocab=vocab,
        dtype=str(said.get("dtype") or said.get("torch_dtype") or "float32").removeprefix("torch."),
        context=_context(said, str(config.get("model_type"))),
        quantization=method,
        quantization_block=block,
        kv_bits=kv_bits,
    ), []


def _flattened(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of the text model, from any depth, with the defaults of its class."""
    said = dict(config)
    while parts := [part for key in _NESTED if _table(part := said.pop(key, None))]:
        # A null overrides nothing outside, but keeps a default from being filled in.
        said |= {k: value for k, value in parts[0].items() if value is not None or k not in said}
    if _table(attention := said.get("attn_config")):  # MPT, DBRX
        said |= attention
    return dict(DEFAULTS.get(str(said.get("model_type")), {})) | said


def _numbers(said: Mapping[str, Any], keys: Sequence[str]) -> list[int]:
    """Return the value of the first key that has any: one number, or one for each layer."""
    for key in keys:
        value = said.get(key)
        listed = value if isinstance(value, list) else [value]
        found = [n for n in listed if isinstance(n, int) and not isinstance(n, bool)]
        if len(found) == len(listed) and max(found, default=0) > 0:
            return found
    return []


def _number(said: Mapping[str, Any], keys: Sequence[str]) -> int:
    return max(_numbers(said, keys), default=0)


def _layer_words(said: Mapping[str, Any]) -> list[str]:
    """Return a word for each layer, if config.json lists the layers."""
    if blocks := _blocks(said):
        return [_block_word(block) for block in blocks]
    for key in ("layers_block_type", "layer_types"):
        if isinstance(listed := said.get(key), list):
            return [str(word) for word in listed]
    if isinstance(listed := said.get("attn_type_list"), list):  # MiniMax
        return ["attention" if kind else "linear" for kind in listed]
    if isinstance(listed := said.get("hybrid_layer_pattern"), list):  # MiMo V2
        return ["sliding" if kind else "attention" for kind in listed]
    return list(str(said.get("hybrid_override_pattern") or "").replace("|", ""))


def _blocks(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    blocks = said.get("block_configs")
    listed = blocks if isinstance(blocks, list) else []
    return listed if all(_table(block) for block in listed) else []


def _block_word(block: Mapping[str, Any]) -> str:
    """Return the word for a block of Nemotron-NAS, whose attention may be left out or replaced."""
    attention = block.get("attention")
    if not _table(attention):
        return str(block.get("block_type") or "none")
    gone = attention.get("no_op") or attention.get("replace_with_linear")
    return "none" if gone else "attention"


def _layer_kinds(said: Mapping[str, Any], words: list[str], layers: int) -> list[str]:
    """Return what each layer keeps: all tokens, a window, a state, both, or nothing.

    If unknown, all tokens are assumed.
    """
    pattern = said.get("block_types")
    if not words and isinstance(pattern, list) and pattern:
        words = [str(pattern[n % len(pattern)]) for n in range(layers)]
    if words:
        kinds = [_LETTERS.get(word, _kind(word)) for word in words[:layers]]
        if "attention_window_size" in said:  # RecurrentGemma
            kinds = ["window" if kind == "all" else kind for kind in kinds]
        return kinds + ["all"] * (layers - len(kinds))
    if said.get("model_type") in _BESIDE:
        return ["both"] * layers
    full = _attention_layers(said, layers)
    if full is not None:
        kind = "both" if "hybrid_layer_ids" in said else "all"
        return [kind if n in full else "state" for n in range(layers)]
    crossing = _numbers(said, ("cross_attention_layers",))  # these keep images, not text
    sliding = _window_layers(said, layers)
    return ["" if n in crossing else "window" if n in sliding else "all" for n in range(layers)]


def _kind(word: str) -> str:
    return next((kind for part, kind in _KEEPS if part in word.lower()), "all")


def _attention_layers(said: Mapping[str, Any], layers: int) -> set[int] | None:
    """Return the layers that have attention while others have a state; None if all have it."""
    for key in ("attn_layer_indices", "full_attn_idxs", "hybrid_layer_ids"):
        if isinstance(listed := said.get(key), list):
            return {n for n in listed if isinstance(n, int)}
    linear = said.get("linear_attn_config")
    if _table(linear) and isinstance(listed := linear.get("full_attn_layers"), list):
        return {n - 1 for n in listed if isinstance(n, int)}  # Kimi Linear counts from 1
    period, offset = _number(said, ("attn_layer_period",)), _number(said, ("attn_layer_offset",))
    if period:
        return {n for n in range(layers) if n % period == offset}
    group = _number(said, ("full_attention_interval", "layer_group_size"))
    if group < 2:
        return None
    # In Ring, the layers after the last whole group have attention too.
    rest = layers // group * group if "layer_group_size" in said else layers
    return {n for n in range(layers) if (n + 1) % group == 0 or n >= rest}


def _window_layers(said: Mapping[str, Any], layers: int) -> set[int]:
    """Return the layers that see only a window."""
    if not _number(said, _WINDOW) or said.get("use_sliding_window") is False:
        return set()
    pattern = said.get("sliding_window_pattern") or said.get("_sliding_window_pattern")
    if isinstance(pattern, str):  # EXAONE 4: LLLG
        return {n for n in range(layers) if pattern[n % len(pattern)] == "L"}
    if isinstance(pattern, int):
        return {n for n in range(layers) if (n + 1) % pattern}
    if said.get("use_sliding_window") or said.get("model_type") in _ALL_WINDOWS:
        return set(range(_number(said, ("max_window_layers",)), layers))
    return set()  # some layers may, by a rule of their class that is not known here


def _layer_caches(said: Mapping[str, Any], keeps: list[str], hidden: int) -> tuple[LayerCache, ...]:
    window, state = _number(said, _WINDOW), _state_size(said, hidden)
    own = len(keeps) - _number(said, ("num_kv_shared_layers",))  # the last share (Gemma 3n)
    found = []
    for n, kind in enumerate(keeps):
        heads, size = 0, 0
        if n < own and kind in ("all", "window", "both"):
            heads, size = _attention_size(said, n, kind, hidden)
        found.append(
            LayerCache(
                heads=heads,
                size=size,
                window=window if heads and kind == "window" else 0,
                state=state if kind in ("state", "both") else 0,
            )
        )
    return tuple(found)


def _attention_size(said: Mapping[str, Any], layer: int, kind: str, hidden: int) -> tuple[int, int]:
    """Return a layer's KV heads, and the numbers of a head's key and value together."""

    def own(*keys: str) -> int:
        found = _numbers(said, keys)
        return found[layer] if layer < len(found) else max(found, default=0)

    times = 2 if said.get("model_type") in _TWICE else 1
    rank, rope, nope = own("kv_lora_rank"), own("qk_rope_head_dim"), own("qk_nope_head_dim")
    if rank and said.get("is_deepseek_mla", said.get("model_type") not in _NOT_LATENT):
        # The indexer of sparse attention (DeepSeek V3.2) keeps one byte for each of its numbers,
        # and a scale of four bytes.
        index = own("index_head_dim") and own("index_head_dim") // 2 + 2
        return 1, times * (rank + rope + index)
    # MiMo V2 and Gemma 4 use other heads in window layers or in layers that see all tokens.
    other, few = ("swa_", "swa_num_key_value_heads") if kind == "window" else ("global_", _GLOBAL)
    heads = own(*_HEADS)
    key = (rope + nope if rank else 0) or own(f"{other}head_dim", *_HEAD_DIM)
    key = key or max(1, hidden // heads)
    value = key if rank else own(f"{other}v_head_dim", "v_head_dim") or key
    blocks = _blocks(said)
    if layer < len(blocks) and _table(block := blocks[layer].get("attention")):
        return max(1, heads // (_number(block, ("n_heads_in_group",)) or 1)), key + value
    if said.get("multi_query") is True and not said.get("new_decoder_architecture"):
        return 1, key + value  # Falcon 7B, GPTBigCode
    if said.get("attn_type") == "multiquery_attention":
        return 1, key + value  # MPT
    if said.get("multi_query_attention") is False:
        return heads, key + value  # ChatGLM, regardless of its groups
    return own(few, *_KV_HEADS) or heads, times * (key + value)


def _state_size(said: Mapping[str, Any], hidden: int) -> int:
    """Return an upper bound of the numbers in a layer's state, its convolution included."""
    linear = said.get("linear_attn_config")  # Kimi Linear
    own = dict(said) | (linear if _table(linear) else {})
    kernel = _number(own, _KERNEL) or 1
    if "conv_L_cache" in own:  # LFM2 has only the convolution
        return hidden * kernel
    wide = (math.prod(_number(own, (key,)) for key in keys) for keys in _WIDE)
    across = next((n for n in wide if n), hidden)
    return across * ((_number(own, _DEEP) or 1) + 3 * (kernel - 1))


def _context(said: Mapping[str, Any], model_type: str) -> int:
    known = [n for key in _CONTEXT if (n := _number(said, (key,)))]
    # Command R gives both; this one is the context that it was made for.
    context = _number(said, ("model_max_length",)) or min(known, default=0)
    rope = said.get("rope_scaling") or said.get("rope_parameters")
    if isinstance(rope, dict) and "gemma3" not in model_type:
        factor = rope.get("factor")
        kind = rope.get("rope_type", rope.get("type", "default"))
        if isinstance(factor, int | float) and factor > 1 and kind not in _SCALED:
            context = int(context * factor)
    return context


def _quantization(said: Mapping[str, Any]) -> tuple[str, int, int]:
    """Return the method, the block size that may not be split, and the bits of a KV number.

    Tensor parallelism may not split a block. The bits are 0 unless these weights fix them.
    """
    config = said.get("quantization_config") or said.get("compression_config")
    if not isinstance(config, dict):
        return "", 0, 0
    method = str(config.get("quant_method") or config.get("quant_algo") or "unknown")
    groups = config.get("config_groups")  # compressed-tensors
    parts = [part for part in groups.values() if _table(part)] if _table(groups) else []
    weights = [part["weights"] for part in parts if _table(part.get("weights"))]
    scheme, inner = config.get("kv_cache_scheme"), config.get("quantization")
    named = (inner if _table(inner) else config).get("kv_cache_quant_algo")  # ModelOpt
    has_bytes = scheme.get("num_bits") == 8 if _table(scheme) else str(named).upper() == "FP8"
    return method, max(_block(one) for one in (config, *weights)), 8 * has_bytes


def _table(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _block(said: Mapping[str, Any]) -> int:
    """Return the widest side of a block, or a group's size; 0 where there is neither."""
    sides = said.get("weight_block_size") or said.get("block_structure")
    listed = sides if isinstance(sides, list) else [said.get("group_size")]
    return max((n for n in listed if isinstance(n, int) and n > 0), default=0)
