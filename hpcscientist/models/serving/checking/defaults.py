"""What the configuration classes of transformers fill in where published models say nothing.

These are the text models of larger ones, whose config.json tells only what differs. The engine
knows them all; this is for where there is none to ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
