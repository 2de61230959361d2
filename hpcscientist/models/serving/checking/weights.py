"""Checks that a model's folder is whole, and reads what is in it, before anything is submitted.

Neither torch nor transformers is needed: config.json, the safetensors headers and the tokenizer's
files suffice. Nothing in the folder is executed.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

from hpcscientist.errors import WeightsError
from hpcscientist.files.text import printable
from hpcscientist.models.serving.checking.shape import DecoderShape, read_shape
from hpcscientist.models.serving.checking.tensors import (
    Broken,
    Shard,
    TensorSums,
    is_pointer,
    read_shard,
)

# Checks of a model's tokenizer and chat template: whether they exist and can be read.

_CONFIG = "tokenizer_config.json"
_TEKKEN = "tekken.json"
# Each of these is a whole vocabulary: fast tokenizers, sentencepiece, tiktoken, BERT's, Mistral's.
_WHOLE = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.txt", _TEKKEN)
_MISTRAL = (
    "tokenizer: tekken.json alone, by which no prompt can be counted here: put tokenizer.json, "
    "tokenizer_config.json and a chat template for transformers beside it, as other copies of the "
    "model have them"
)
# Marks of thinking in published templates: tags of several names, Mistral's brackets, Kimi's
# triangles, Cohere's and Apertus' tokens, channels of gpt-oss and Gemma 4, and the switch.
_THINKING = re.compile(
    r"</?(\w+:)?(think|thinking|thought|reasoning)>|\[/?THINK\]|◁/?think▷|_THINKING\|>"
    r"|<\|inner_prefix\|>|<\|channel\|?>(analysis|thought)|\benable_thinking\b"
)
_PAIRS = (("vocab.json", "merges.txt"),)
_BRING = "copy all small files of the download too"
_TEMPLATE = (
    "chat template: none in tokenizer_config.json, chat_template.jinja or chat_template.json; take "
    "the model's instruct variant, or put its template into chat_template.jinja"
)


def read_json(path: Path) -> tuple[Any, str]:
    """Return a file's JSON and "", or None and what is wrong with it ("" if it is missing)."""
    try:
        if is_pointer(path):
            return None, f"{path.name} is a git-LFS pointer: run `git lfs pull`"
        return json.loads(path.read_bytes()), ""
    except FileNotFoundError:
        broken = f"{path.name} is a link to nothing: the download is not whole"
        return None, broken if path.is_symlink() else ""
    except OSError as error:
        return None, f"{path.name} cannot be read: {error.strerror or error}"
    except (ValueError, RecursionError):
        return None, f"{path.name} is no JSON: download it again"


def faults(folder: Path) -> Iterator[str]:
    """Yield each fault of a model's tokenizer and template, with its fix."""
    config, wrong = read_json(folder / _CONFIG)
    if config is None and not wrong and (folder / _TEKKEN).is_file():
        yield _MISTRAL
        return
    if wrong:
        yield wrong
    elif not isinstance(config, dict):
        yield f"{_CONFIG} is missing: {_BRING}" if config is None else f"{_CONFIG} is no table"
    yield from _vocabulary(folder)
    template = chat_template(folder)
    if template is None:
        yield _TEMPLATE
    elif not template.strip():
        yield "chat template: it is empty; put the model's own into chat_template.jinja"
    else:
        try:
            _ENVIRONMENT.parse(template)
        except TemplateSyntaxError as error:
            yield f"chat template: line {error.lineno}: {error.message}; download it again"


def chat_template(folder: Path) -> str | None:
    """Return the template that turns messages into a prompt; None if there is none."""
    try:
        return (folder / "chat_template.jinja").read_text(encoding="utf-8", errors="replace")
    except OSError:
        pass
    for name in ("chat_template.json", _CONFIG):
        said, _ = read_json(folder / name)
        found = said.get("chat_template") if isinstance(said, dict) else None
        if isinstance(found, list):  # several, by name
            named = {t.get("name"): t.get("template") for t in found if isinstance(t, dict)}
            found = named.get("default")
        if isinstance(found, str):
            return found
    return None


def thinks(folder: Path) -> bool:
    """Return whether a model's template separates thinking from the answer."""
    return _THINKING.search(chat_template(folder) or "") is not None


def _vocabulary(folder: Path) -> Iterator[str]:
    there = [name for name in _WHOLE if (folder / name).is_file()]
    there += [path.name for path in sorted(folder.glob("*.tiktoken"))]
    pairs = [pair for pair in _PAIRS if all((folder / name).is_file() for name in pair)]
    if not there and not pairs:
        yield (
            "tokenizer: none of tokenizer.json, tokenizer.model, or vocab.json with merges.txt; "
            + _BRING
        )
    for name in (*there, *(name for pair in pairs for name in pair)):
        yield from _vocabulary_file(folder / name)


def _vocabulary_file(path: Path) -> Iterator[str]:
    if path.suffix == ".json":
        said, wrong = read_json(path)
        if wrong:
            yield wrong
        elif not isinstance(said, dict) or not said:
            yield f"{path.name} holds no vocabulary: download it again"
        elif path.name == "tokenizer.json" and not isinstance(said.get("model"), dict):
            yield f"{path.name} holds no model of tokens: download it again"
        return
    try:
        if is_pointer(path):
            yield f"{path.name} is a git-LFS pointer: run `git lfs pull`"
        elif path.stat().st_size == 0:
            yield f"{path.name} is empty: download it again"
    except OSError as error:
        yield f"{path.name} cannot be read: {error.strerror or error}"


class _Generation(Extension):
    """The tag around the model's own words in templates, which transformers adds to Jinja."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own way)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Parse to the end of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


_ENVIRONMENT = Environment(extensions=[_Generation, "jinja2.ext.loopcontrols"])  # only parses


_INDEX = "model.safetensors.index.json"
_NUMBERED = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.safetensors")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_NO_WEIGHTS = ("training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth")
_NAMED = 8  # files of one kind named in an error
_CONVERT = (
    "weights: only pickles ({}), which execute code when they are loaded; take the model's "
    "safetensors, or convert them on a machine you trust: load with transformers, save_pretrained"
)


_BELOW = ("snapshots/*/config.json", "*/config.json")  # of a download's cache, of a training run
_ADAPTER = "adapter_config.json"
_MERGE = (
    "weights: only an adapter of {}: merge it into that model on a machine you trust (peft: "
    "merge_and_unload, save_pretrained), and give the merged folder"
)


class Checkpoint(DecoderShape):
    """A whole model on disk. Bytes; `folder` is absolute.

    `weight_bytes` are the tensors as stored. Of their numbers, `floats` take the engine's dtype in
    memory and `other_bytes` stay as they are; `outside_*` are those of embeddings and head.
    `remarks` are worth knowing, though the model can be served. `thinks`: its chat template
    separates thinking from the answer.
    """

    folder: str
    weight_bytes: int
    floats: int
    other_bytes: int
    outside_floats: int
    outside_bytes: int
    remarks: tuple[str, ...] = ()
    thinks: bool = False


def check(folder: Path, engine: Mapping[str, Any] | None = None) -> Checkpoint:
    """Return what a model's folder holds, after checking every file that serving needs.

    `engine` is what the serving engine reads from its config.json (`Engine.config`); without it,
    config.json is read here. Raises WeightsError, one line that lists all that is missing or
    broken, with the fixes.
    """
    folder = folder.absolute()
    config, tally, found = _inspect(folder)
    shape, lacks = read_shape(config, engine) if config else (None, [])
    if shape is None or found:
        _refuse(folder, [*lacks, *found])
    return Checkpoint(
        **dict(shape),
        folder=str(folder),
        weight_bytes=tally.stored,
        floats=tally.floats,
        other_bytes=tally.other_bytes,
        outside_floats=tally.outside_floats,
        outside_bytes=tally.outside_bytes,
        remarks=tuple(_remarks(folder, bool(config.get("auto_map")))),
        thinks=thinks(folder),
    )


def require_whole(folder: Path) -> None:
    """Check that every file that serving needs is whole, whatever config.json says.

    Raises WeightsError as `check` does.
    """
    _, _, found = _inspect(folder.absolute())
    if found:
        _refuse(folder.absolute(), found)


def read_config(folder: Path) -> str:
    """Return the text of a model's config.json, "" if it is missing or unreadable."""
    try:
        return (folder / "config.json").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def architecture(config: str) -> str:
    """Return the architecture that the text of a config.json names, "" for none."""
    with contextlib.suppress(ValueError, KeyError, TypeError, IndexError, RecursionError):
        return str(json.loads(config)["architectures"][0])
    return ""


def _inspect(folder: Path) -> tuple[dict[str, Any], TensorSums, list[str]]:
    """Return config.json, the sums over the weights, and what is wrong with any of the files."""
    if not folder.is_dir():
        raise WeightsError(f"{folder}: there is no such folder; give the folder of a model")
    config, wrong = read_json(folder / "config.json")
    if config is None and not wrong and (other := _elsewhere(folder)):
        return {}, TensorSums(), [other]
    found: list[str] = []
    if not isinstance(config, dict):
        lack = "config.json is missing: give the folder that holds it" if config is None else ""
        found = [wrong or lack or "config.json is no table: download it again"]
        config = {}
    if not config.get("quantization_config"):  # older ModelOpt; the engine reads it in its place
        own, _ = read_json(folder / "hf_quant_config.json")
        config |= (
            {"quantization_config": {"quant_method": "modelopt", **own}}
            if isinstance(own, dict)
            else {}
        )
    tally, broken = _weights(folder)
    _, wrong = read_json(folder / "generation_config.json")
    return config, tally, [*found, *broken, *faults(folder), *([wrong] if wrong else [])]


def _elsewhere(folder: Path) -> str:
    """Return what to give in place of a folder without config.json; "" if that is unknown."""
    adapted, _ = read_json(folder / _ADAPTER)
    if isinstance(adapted, dict):
        return _MERGE.format(adapted.get("base_model_name_or_path") or "another model")
    below = [path.parent for pattern in _BELOW for path in sorted(folder.glob(pattern))]
    named = ", ".join(str(path) for path in below[:_NAMED])
    return f"it holds no model, but folders of models: give one of {named}" if named else ""


def _refuse(folder: Path, found: list[str]) -> NoReturn:
    said = tuple(printable(problem) for problem in found)
    raise WeightsError(f"{folder} cannot be served: {'; '.join(said)}", said)


def _weights(folder: Path) -> tuple[TensorSums, list[str]]:
    """Return the sums over all shards, and what is wrong with them."""
    index, wrong = read_json(folder / _INDEX)
    if wrong:
        return TensorSums(), [wrong]
    owners = index.get("weight_map") if isinstance(index, dict) else None
    if index is not None and not _is_map(owners):
        return TensorSums(), [f"{_INDEX} maps no tensors to files: download it again"]
    names = sorted(set(owners.values()) if owners else _by_pattern(folder))
    if not names:
        return TensorSums(), [_nothing(folder)]
    found: list[str] = []
    absent = [name for name in names if not (folder / name).exists()]
    if absent:
        found.append(
            f"weights: {len(absent)} of {len(names)} files are missing ({_some(absent)}): "
            "finish the download or the copy"
        )
    shards: dict[str, Shard] = {}
    for name in names:
        if name not in absent:
            try:
                shards[name] = read_shard(folder / name)
            except Broken as error:
                found.append(f"{name} {error}")
    if owners:
        strays = sorted(
            tensor
            for tensor, name in owners.items()
            if name in shards and tensor not in shards[name].names
        )
        if strays:
            found.append(f"weights: files lack tensors of their index ({_some(strays)})")
    elif shards and not any(shard.names for shard in shards.values()):
        found.append("weights: the files hold no tensors")
    return sum((shard.tally for shard in shards.values()), TensorSums()), found


def _is_map(owners: object) -> bool:
    return (
        isinstance(owners, dict)
        and bool(owners)
        and all(isinstance(name, str) and Path(name).name == name for name in owners.values())
    )


def _by_pattern(folder: Path) -> set[str]:
    """Return the files of a model without an index; a numbered file implies its whole set.

    The engine finds files by this pattern too. Files named consolidated* are copies (Mistral's),
    and adapter_model* alone is no model.
    """
    there = {path.name for path in folder.glob("*.safetensors")}
    if all(name.startswith("adapter_model") for name in there):
        return set()
    there = {name for name in there if not name.startswith("consolidated")} or there
    for match in [m for name in there if (m := _NUMBERED.fullmatch(name))]:
        total = match[3]
        there |= {f"{match[1]}-{n:05}-of-{total}.safetensors" for n in range(1, int(total) + 1)}
    return there


def _pickles(folder: Path) -> list[str]:
    files = {path.name for pattern in _PICKLES for path in folder.glob(pattern)}
    return sorted(files.difference(_NO_WEIGHTS))


def _nothing(folder: Path) -> str:
    if (folder / "adapter_model.safetensors").exists():
        return _elsewhere(folder) or _MERGE.format("another model")
    if pickles := _pickles(folder):
        return _CONVERT.format(_some(pickles))
    if any(folder.glob("*.gguf")):
        return "weights: only GGUF, which is not served here; take the model's safetensors"
    if any(folder.glob("*.incomplete")):
        return "weights: only *.incomplete files: finish the download"
    return "weights: there is no *.safetensors file: copy or download them"


def _remarks(folder: Path, has_code: bool) -> Iterator[str]:
    if pickles := _pickles(folder):
        yield f"{_some(pickles)} are pickles and not read: the safetensors are"
    if has_code:
        yield "config.json names code of the model's own (auto_map), which is not executed"
    if not (folder / "generation_config.json").is_file():
        yield "no generation_config.json: what a role does not set is sampled as the engine does"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
