"""A model's tokenizer and chat template: are they there, and can they be read?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

from hpcscientist.models.serving.checking.tensors import is_pointer

_CONFIG = "tokenizer_config.json"
_TEKKEN = "tekken.json"
# Any of these is a whole vocabulary: fast tokenizers, sentencepiece, tiktoken, BERT's, Mistral's.
_WHOLE = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.txt", _TEKKEN)
_MISTRAL = (
    "tokenizer: tekken.json alone, by which no prompt can be counted here: put tokenizer.json, "
    "tokenizer_config.json and a chat template for transformers beside it, as other copies of the "
    "model have them"
)
# Marks of thinking, as published templates write them: tags of several names, Mistral's brackets,
# Kimi's triangles, Cohere's and Apertus' tokens, channels of gpt-oss and Gemma 4, and the switch.
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
    """Return a file's JSON and "", or None and what is wrong with it ("" where it is not there)."""
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
    """Yield what is wrong with a model's tokenizer and template, each with its mend."""
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
    """Return the template by which messages become a prompt; None where there is none."""
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
    """Tell whether a model's template knows thinking apart from the answer."""
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
    """The tag by which templates mark the model's own words; transformers knows it, Jinja not."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own way)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Read to the end of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


_ENVIRONMENT = Environment(extensions=[_Generation, "jinja2.ext.loopcontrols"])  # only parses
