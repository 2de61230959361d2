"""config.json, read layer by layer; what published models say is in corpora/model_configs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.models.serving.checking.shape import LayerCache, read_shape

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
}
WHOLE, NOTHING = LayerCache(heads=4, size=128), LayerCache()


def kept(**said: Any) -> tuple[LayerCache, ...]:
    shape, lacks = read_shape(LLAMA | said)
    assert shape is not None, lacks
    return shape.caches


def block(**attention: Any) -> dict[str, Any]:
    return {"attention": attention, "ffn": {"no_op": False}}


def test_blocks_have_heads_of_their_own() -> None:
    blocks = [
        block(n_heads_in_group=4),
        block(n_heads_in_group=None, no_op=True),
        block(n_heads_in_group=None, replace_with_linear=True),
        block(n_heads_in_group=16),
    ]
    found = kept(block_configs=blocks, num_key_value_heads=None)
    assert found == (WHOLE, NOTHING, NOTHING, LayerCache(heads=1, size=128))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["full_attention", "chunked_attention", "sliding_attention", "deepseek_sparse"], "aawa"),
        (["attention", "mlp", "moe", "mamba"], "a--s"),
        (["linear_attention", "conv", "recurrent", "kda"], "ssss"),
        (["attention"], "aaaa"),  # of the rest nothing is known
        (["attention", "mamba"] * 3, "asas"),
    ],
)
def test_a_layer_keeps_what_its_word_says(words: list[str], found: str) -> None:
    layers = kept(layer_types=words, sliding_window=64)
    kinds = ["s" if n.state else "w" if n.window else "a" if n.heads else "-" for n in layers]
    assert "".join(kinds) == found


def test_windows_of_some_layers() -> None:
    said = {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 3}
    assert [layer.window for layer in kept(**said)] == [0, 0, 0, 64]
    assert [layer.window for layer in kept(**said | {"use_sliding_window": False})] == [0] * 4
    # A family whose rule is not known here may have one in some layers alone.
    for family, window in (("mistral", 64), ("unheard_of", 0)):
        layers = kept(model_type=family, sliding_window=64)
        assert [layer.window for layer in layers] == [window] * 4


def test_null_in_the_text_s_part_is_no_default_and_hides_nothing() -> None:
    """LLaVA has Mistral's sizes, but not its window; and its dtype is said outside."""
    text = {"model_type": "mistral", "sliding_window": None, "dtype": None, "vocab_size": 32_064}
    said = {"architectures": ["LlavaForConditionalGeneration"], "dtype": "float16"}
    shape, _ = read_shape(said | {"model_type": "llava", "text_config": text})
    assert shape is not None
    assert shape.caches == (LayerCache(heads=8, size=256),) * 32
    assert shape.dtype == "float16"


def test_states_are_as_large_as_they_are_at_most() -> None:
    """The engine's own sizes (MambaStateShapeCalculator), with all that is convolved."""
    mamba = {"model_type": "mamba2", "num_heads": 128, "head_dim": 64, "state_size": 128}
    (layer, *_) = kept(**mamba, conv_kernel=4, num_attention_heads=None)
    assert 128 * 64 * 128 + 3 * (128 * 64 + 2 * 8 * 128) <= layer.state <= 1.1 * 128 * 64 * 128
    delta = {"linear_num_value_heads": 32, "linear_value_head_dim": 128}
    more = {"linear_key_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4}
    (layer, *_) = kept(**delta, **more)
    assert 32 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128) <= layer.state <= 1.1 * 32 * 128 * 128


def test_absurd_counts_are_refused() -> None:
    shape, (lack,) = read_shape(LLAMA | {"num_hidden_layers": 10**9})
    assert shape is None
    assert "1000000000 layers" in lack


KEYS = [
    *("architectures", "model_type", "text_config", "hidden_size", "num_hidden_layers"),
    *("num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "layer_types"),
    *("layers_block_type", "block_configs", "attention", "n_heads_in_group", "block_types"),
    *("attn_layer_indices", "attn_layer_period", "linear_attn_config", "full_attn_layers"),
    *("hybrid_override_pattern", "sliding_window", "sliding_window_pattern", "attn_config"),
    *("kv_lora_rank", "num_kv_shared_layers", "quantization_config", "kv_cache_scheme"),
]
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 64)
    | st.floats()
    | st.sampled_from(["", "M-*", "x"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(KEYS), anything, max_size=6))
def test_whatever_is_said_there_is_a_shape_or_what_it_lacks(said: dict[str, Any]) -> None:
    shape, lacks = read_shape(LLAMA | said)
    assert (shape is None) is bool(lacks)
