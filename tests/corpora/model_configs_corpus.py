"""What models of published families keep in an engine's cache, by the config.json they come with.

`configs.jsonl` has a line a model: the fields of its config.json that matter, written from its
paper, its card or its class in transformers, and what it keeps by these: how many layers there are,
how many keep keys and values of all tokens, of a window, or a state; the most KV heads of a layer;
bytes of keys and values a token, in 16 bits unless the weights come with scales. `templates.jsonl`
has chat templates, the smallest of each kind: whether they can be read, and know thinking.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from corpus_kit import FOLDER, Case

from hpcscientist.models.serving.checking.shape import read_shape
from hpcscientist.models.serving.checking.weights import faults, thinks

_DATA = FOLDER / "model_configs"


def cases() -> Iterator[Case]:
    """Each model, and each kind of chat template."""
    for line in (_DATA / "configs.jsonl").read_text(encoding="utf-8").splitlines():
        said = json.loads(line)
        name, source, config = (said.pop(key) for key in ("name", "source", "config"))
        yield Case(name, said, partial(_kept, config), source)
    for line in (_DATA / "templates.jsonl").read_text(encoding="utf-8").splitlines():
        said = json.loads(line)
        name, source, files = (said.pop(key) for key in ("name", "source", "files"))
        yield Case(f"template: {name}", said, partial(_template, files), source)


def _kept(config: dict[str, Any]) -> dict[str, int] | list[str]:
    shape, lacks = read_shape(config)
    if shape is None:
        return lacks
    return {
        "layers": shape.layers,
        "all": sum(kept.heads > 0 and not kept.window for kept in shape.caches),
        "window": sum(kept.window > 0 for kept in shape.caches),
        "state": sum(kept.state > 0 for kept in shape.caches),
        "kv_heads": max(kept.heads for kept in shape.caches),
        "kv_bytes": sum(kept.heads * kept.size for kept in shape.caches)
        * (shape.kv_bits or 16)
        // 8,
    }


def _template(files: dict[str, Any]) -> dict[str, bool]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tokenizer.json").write_text('{"model": {"type": "BPE"}}')
        (folder / "tokenizer_config.json").write_text("{}")
        for file, content in files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / file).write_text(text, encoding="utf-8")
        return {"read": not list(faults(folder)), "thinks": thinks(folder)}
