"""Opens the model that a `--model` SPEC names, except the control arm `search`, which is none."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.config.settings import ClientSettings, Settings
from hpcscientist.errors import ModelSpecError
from hpcscientist.models.endpoint.wire import check_base_url
from hpcscientist.models.prompting.fitting import Counter, Window, counter_of
from hpcscientist.models.role_client import Roles
from hpcscientist.ports import Model
from hpcscientist.records.base import Record
from hpcscientist.records.model_calls import Role
from hpcscientist.system import plugins

_CONTROL_ARM = "search is the control arm and no language model; run it by itself"
ROLES: tuple[Role, ...] = ("ideation", "code", "review")
"""The roles of every campaign with a language model."""
API_KEY_VARIABLE = "HPCSCI_API_KEY"
OURS = frozenset({"http", "https", "playbook", "search", "vllm"})
FORMS = (
    "http://HOST:PORT/v1#NAME",
    "playbook",
    "playbook:FILE_OR_RUN_DIR",
    "search",
    "vllm:PATH_OR_NAME",
)
_NEAREST = {"http": FORMS[0], "playbook": FORMS[1], "search": FORMS[3], "vllm": FORMS[4]}


class ModelSpec(Record):
    """A parsed SPEC. `base_url` and `name` belong to `http`, `file` to `playbook:`.

    For `vllm`, `name` is the path or name to serve. For a model of another package (entry points of
    the group `hpcscientist.models`, whose names are kinds), it is the text after the colon.
    """

    kind: str
    base_url: str | None = None
    name: str | None = None
    file: str | None = None


def parse_spec(spec: str) -> ModelSpec:
    """Parse a SPEC. Raises ModelSpecError, listing the valid forms and the nearest."""
    kind, _, rest = spec.partition(":")
    if kind in {"http", "https"}:
        base, _, name = spec.partition("#")
        base_url = check_base_url(base)
        if not name.strip():
            raise ModelSpecError(f"{spec!r} names no model; add its served name: {base}#NAME")
        return ModelSpec(kind="http", base_url=base_url, name=name.strip())
    if spec in {"playbook", "search"}:
        return ModelSpec(kind=spec)
    if kind == "playbook" and rest:
        return ModelSpec(kind="playbook", file=rest)
    if kind == "vllm" and rest:
        return ModelSpec(kind="vllm", name=rest)
    if kind in plugins.load("models", OURS):
        return ModelSpec(kind=kind, name=rest)
    raise ModelSpecError(_unknown(spec, kind))


def open_model(
    spec: str,
    recipe_playbook: Path | None,
    settings: ClientSettings,
    replies: Mapping[str, type[Record]] | None = None,
) -> Model:
    """Open the model that a SPEC names; `playbook` alone means the recipe's own.

    `replies` are the replies that a playbook may hold, by kind of call. The API key of an endpoint
    is taken from the environment. Raises ModelSpecError, also for `search`, which the caller
    handles, and for what this version does not serve.
    """
    parsed = parse_spec(spec)
    if parsed.kind == "search":
        raise ModelSpecError(_CONTROL_ARM)
    if parsed.kind == "vllm":
        raise ModelSpecError(
            "models are served beside a campaign's driver alone; here give http://HOST:PORT/v1#NAME"
        )
    if parsed.kind not in OURS:
        model: Model = plugins.load("models", OURS)[parsed.kind].value(parsed.name, settings)
        return model
    if parsed.kind == "http" and parsed.base_url and parsed.name:
        # Imported here so that a playbook needs no HTTP client.
        from hpcscientist.models.endpoint.client import OpenAIModel  # noqa: PLC0415

        key = os.environ.get(API_KEY_VARIABLE)
        return OpenAIModel(parsed.base_url, parsed.name, settings, key)
    from hpcscientist.models.playbook import PlaybookModel  # noqa: PLC0415

    path = Path(parsed.file) if parsed.file else recipe_playbook
    if path is None:
        raise ModelSpecError("this recipe has no playbook; give playbook:FILE or another --model")
    return PlaybookModel(path, replies)


@dataclass(frozen=True, slots=True)
class Served:
    """The model of a `vllm:` SPEC, known once it is served; `open` creates its client.

    `context` is in tokens, 0 if unknown. `folder` is the model's, for its tokenizer.
    """

    open: Callable[[], Model]
    context: int
    folder: Path


def role_specs(settings: Settings, spec: str, roles: Collection[Role] = ()) -> dict[Role, str]:
    """Return the SPEC of each role that asks a language model; `spec` for roles without their own.

    `roles` are roles of stages, beyond the three of every campaign. Raises ModelSpecError, which
    names the role's key for a SPEC of its own.
    """
    specs: dict[Role, str] = {}
    for role in dict.fromkeys((*ROLES, *roles)):
        own = settings.role(role).model
        with _blaming(role if own else None):
            if parse_spec(own or spec).kind == "search":
                raise ModelSpecError(_CONTROL_ARM)
        specs[role] = own or spec
    return specs


def open_models(
    specs: Mapping[Role, str],
    recipe_playbook: Path | None,
    settings: Settings,
    served: Mapping[str, Served] | None = None,
    replies: Mapping[str, type[Record]] | None = None,
) -> Roles:
    """Open the models of `role_specs`, each once.

    `served` holds the `vllm:` models by SPEC. `replies` is what a playbook may hold, by kind of
    call; without it, anything. Raises ModelSpecError, naming the role's key where it has one.
    """
    opened: dict[str, Model] = {}
    counters: dict[str, Counter] = {}
    windows: dict[Role, Window] = {}
    for role, spec in specs.items():
        place = (served or {}).get(spec)
        if spec not in opened:
            with _blaming(role if settings.role(role).model else None):
                opened[spec] = (
                    place.open()
                    if place
                    else open_model(spec, recipe_playbook, settings.client, replies)
                )
            counters[spec] = counter_of(place.folder if place else None)
        limits = {settings.role(role).context, place.context if place else 0} - {0}
        ask = getattr(opened[spec], "context", None)
        # A prompt without its schema saves 300 of 2,400 tokens a request; vLLM enforces the schema.
        own_server = place is not None
        windows[role] = Window(
            min(limits, default=0), counters[spec], ask, holds_schemas=own_server
        )
    return Roles({role: opened[spec] for role, spec in specs.items()}, windows)


@contextlib.contextmanager
def _blaming(role: Role | None) -> Iterator[None]:
    try:
        yield
    except ModelSpecError as error:
        if role is None:
            raise
        raise ModelSpecError(f"{role}.model: {error}") from error


def _unknown(spec: str, kind: str) -> str:
    forms = ", ".join(FORMS)
    if "#" in spec or "@" in spec:  # not repeated: it may hold credentials
        return f"the model's address lacks http:// or https://; valid forms: {forms}"
    near = difflib.get_close_matches(kind.lower(), _NEAREST, n=1)
    hint = f"; did you mean {_NEAREST[near[0]]}?" if near else ""
    return f"{spec!r} names no model; valid forms: {forms}{hint}"
