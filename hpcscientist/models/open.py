"""From a `--model` SPEC to a model. The control arm, `search`, is no model and not opened here."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Literal

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import ModelSpecError
from hpcscientist.models.wire import check_base_url
from hpcscientist.ports.model import Model
from hpcscientist.records.base import Record

API_KEY_VARIABLE = "HPCSCI_API_KEY"
FORMS = ("http://HOST:PORT/v1#NAME", "playbook", "playbook:FILE", "search", "vllm:PATH_OR_NAME")
_NEAREST = {"http": FORMS[0], "playbook": FORMS[1], "search": FORMS[3], "vllm": FORMS[4]}


class ModelSpec(Record):
    """A SPEC, taken apart. `base_url` and `name` are of `http`, `file` of `playbook:FILE`.

    For `vllm`, `name` is the path or name to serve.
    """

    kind: Literal["http", "playbook", "search", "vllm"]
    base_url: str | None = None
    name: str | None = None
    file: str | None = None


def parse_spec(spec: str) -> ModelSpec:
    """Take a SPEC apart. Raises ModelSpecError, listing the valid forms and the nearest."""
    kind, _, rest = spec.partition(":")
    if kind in {"http", "https"}:
        base, _, name = spec.partition("#")
        base_url = check_base_url(base)
        if not name.strip():
            raise ModelSpecError(f"{spec!r} names no model; add its served name: {base}#NAME")
        return ModelSpec(kind="http", base_url=base_url, name=name.strip())
    if spec in {"playbook", "search"}:
        return ModelSpec(kind=spec)  # type: ignore[arg-type]
    if kind == "playbook" and rest:
        return ModelSpec(kind="playbook", file=rest)
    if kind == "vllm" and rest:
        return ModelSpec(kind="vllm", name=rest)
    raise ModelSpecError(_unknown(spec, kind))


def open_model(spec: str, recipe_playbook: Path | None, settings: ClientSettings) -> Model:
    """Open the model that a SPEC names; `playbook` alone is the recipe's own.

    The API key of an endpoint is taken from the environment. Raises ModelSpecError, also
    for `search`, which the caller handles, and for what this version does not serve.
    """
    parsed = parse_spec(spec)
    if parsed.kind == "search":
        raise ModelSpecError("search is the control arm and no language model; run it by itself")
    if parsed.kind == "vllm":
        raise ModelSpecError(
            "this version does not serve models yet: start vLLM yourself and give "
            "http://HOST:PORT/v1#NAME"
        )
    if parsed.kind == "http" and parsed.base_url and parsed.name:
        # Imported here so that a playbook needs no HTTP client.
        from hpcscientist.models.client import OpenAIModel  # noqa: PLC0415

        key = os.environ.get(API_KEY_VARIABLE)
        return OpenAIModel(parsed.base_url, parsed.name, settings, key)
    from hpcscientist.models.playbook import PlaybookModel  # noqa: PLC0415

    path = Path(parsed.file) if parsed.file else recipe_playbook
    if path is None:
        raise ModelSpecError("this recipe has no playbook; give playbook:FILE or another --model")
    return PlaybookModel(path)


def _unknown(spec: str, kind: str) -> str:
    forms = ", ".join(FORMS) + " (the last not yet in this version)"
    if "#" in spec or "@" in spec:  # not repeated: it may hold credentials
        return f"the model's address lacks http:// or https://; valid forms: {forms}"
    near = difflib.get_close_matches(kind.lower(), _NEAREST, n=1)
    hint = f"; did you mean {_NEAREST[near[0]]}?" if near else ""
    return f"{spec!r} names no model; valid forms: {forms}{hint}"
