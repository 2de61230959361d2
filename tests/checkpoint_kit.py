"""Writes model folders by hand, safetensors and JSON, without torch."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4096\n"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 128,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}
FIRST = {"model.embed_tokens.weight": (128, 64), "model.layers.0.w": (8, 4)}
SECOND = {"model.layers.1.w": (8, 4), "lm_head.weight": (128, 64)}


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


def write_shard(path: Path, tensors: Mapping[str, tuple[int, int]], dtype: str = "BF16") -> None:
    size = {"BF16": 2, "F32": 4, "I8": 1}[dtype]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (rows, columns) in tensors.items():
        begin, end = end, end + rows * columns * size
        header[name] = {"dtype": dtype, "shape": [rows, columns], "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))


def write_model(folder: Path, **config: object) -> Path:
    """Write a complete model with two shards."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", {**CONFIG, **config})
    write_json(folder / "generation_config.json", {})
    write_json(folder / "tokenizer.json", {"model": {"type": "BPE", "vocab": {}}})
    write_json(folder / "tokenizer_config.json", {"chat_template": "{{ messages }}"})
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    for name, tensors in zip(names, (FIRST, SECOND), strict=True):
        write_shard(folder / name, tensors)
    index = {t: name for name, ts in zip(names, (FIRST, SECOND), strict=True) for t in ts}
    write_json(folder / "model.safetensors.index.json", {"weight_map": index})
    return folder
