"""Configurations in which something is odd: files, variables, options and a site profile."""

from __future__ import annotations

import os
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hypothesis import strategies as st
from odd_campaigns import HERE, look_at, make_recipe
from odd_servers import OddServer, Server
from odd_values import INSIDE, NUMBERS, ODD_FILES, REWRITTEN, STRINGS, TOML_VALUES
from pydantic import BaseModel
from try_out import ground, tried

from hpcscientist.config.layers import defaults
from hpcscientist.config.settings import Settings
from hpcscientist.records.site import Site

SETTINGS, SITE = defaults(Settings), defaults(Site)
FILES = ("hpcsci.toml", "site.toml", "user.toml")
OPTIONS = (
    *("recipe", "ideas", "rounds", "control", "site", "account", "partition", "constraint"),
    *("image", "library", "mode", "instruction", "decision", "nodes", "seed", "run-dir"),
)
MODELS = ("search", "playbook", "server")


@dataclass(frozen=True)
class Configuration:
    """Keys and values of each layer, written as they stand there; `files` are TOML texts.

    `odd` says which file is of another kind, `saved` which was saved by another program. `model`
    "server" is one that answers as it should.
    """

    files: tuple[tuple[str, str], ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    odd: tuple[tuple[str, str], ...] = ()
    saved: tuple[tuple[str, str], ...] = ()
    model: str = "search"


def _words_of(model: type[BaseModel], key: str) -> tuple[str, ...]:
    """The words that a key may be, where it may be a few only."""
    *sections, name = key.split(".")
    for section in sections:
        model = typing.cast("type[BaseModel]", model.model_fields[section].annotation)
    annotation = model.model_fields[name].annotation
    inner = [*typing.get_args(annotation), annotation]
    return tuple(
        word
        for kind in inner
        if typing.get_origin(kind) is Literal
        for word in typing.get_args(kind)
    )


def _fitting(model: type[BaseModel], key: str, default: Any) -> st.SearchStrategy[str]:
    """Values of a key's own kind."""
    if words := _words_of(model, key):
        quoted = [f'"{word}"' for word in words]
        return st.sampled_from([*quoted, f"[{quoted[0]}]"] if default == () else quoted)
    if isinstance(default, bool):
        return st.sampled_from(("true", "false"))
    if isinstance(default, int | float):
        return st.one_of(st.integers(0, 5).map(str), st.sampled_from(NUMBERS))
    if isinstance(default, dict):
        return st.sampled_from(("{}", "{a = 1}", '{a = "b", "\\u202e" = true}', '{"" = 1.5}'))
    texts = st.sampled_from(STRINGS)
    return texts if isinstance(default, str) else texts.map(lambda text: f"[{text}]")


@st.composite
def _lines(draw: st.DrawFn, model: type[BaseModel]) -> str:
    """Lines of TOML: keys that there are, and perhaps one that there is not."""
    keys = defaults(model)
    lines = []
    for key in draw(st.lists(st.sampled_from(sorted(keys)), min_size=1, max_size=3)):
        own = _fitting(model, key, keys[key])
        value = draw(own if draw(st.integers(0, 2)) else TOML_VALUES)
        how = draw(st.sampled_from(("plain",) * 8 + ("table", "other")))
        if how == "other":
            others = ('"\\u202e"', '""', "loop", "a.b", f"{key}.x", "x" * 3_000, "a" + ".a" * 3_000)
            lines.append(f"{draw(st.sampled_from(others))} = {value}")
        else:
            lines.append(f"[{key}]\nx = {value}" if how == "table" else f"{key} = {value}")
    return "\n".join(lines) + "\n"


@st.composite
def _pairs(draw: st.DrawFn, names: tuple[str, ...], values: Any) -> tuple[tuple[str, str], ...]:
    chosen = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    return tuple((name, draw(values)) for name in chosen)


@st.composite
def _variables(draw: st.DrawFn) -> tuple[tuple[str, str], ...]:
    found = []
    for key in draw(st.lists(st.sampled_from(sorted(SETTINGS)), max_size=2, unique=True)):
        own = _fitting(Settings, key, SETTINGS[key])
        value = draw(own if draw(st.booleans()) else TOML_VALUES)
        name = "HPCSCI_" + key.upper().replace(".", "_")
        found.append((name, value.strip('"') if draw(st.booleans()) else value))
    for name in draw(
        st.lists(st.sampled_from(("HPCSCI_API_KEY", "HPCSCI_X", "COLUMNS")), max_size=1)
    ):
        found.append((name, draw(st.sampled_from(INSIDE))))
    return tuple((name, value) for name, value in found if "\0" not in value)


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    layer = draw(st.sampled_from(("hpcsci.toml",) * 4 + ("site.toml", "site.toml", "user.toml")))
    where = draw(st.sampled_from(("file", "file", "file", "variables", "options", "kind")))
    model = Site if layer == "site.toml" else Settings
    case = Configuration(
        files=((layer, draw(_lines(model))),) if where in ("file", "kind") else (),
        variables=draw(_variables()) if where == "variables" else (),
        options=draw(_pairs(OPTIONS, st.sampled_from((*INSIDE, *NUMBERS))))
        if where == "options"
        else (),
        odd=((layer, draw(st.sampled_from(sorted(ODD_FILES)))),)
        if where == "kind" and draw(st.booleans())
        else (),
        saved=draw(_pairs((layer,), st.sampled_from(sorted(REWRITTEN)))) if where == "kind" else (),
        model=draw(st.sampled_from(MODELS)),
    )
    return case


def try_configuration(case: Configuration, server: OddServer, *, launched: bool) -> None:
    with ground() as folder:
        make_recipe(folder, whole=False)
        given = [*HERE, *_write(case, folder)]
        tried(["config", "show"])
        server.play(Server(()))
        model = server.spec if case.model == "server" else case.model
        launch = ["launch", "--model", model, "--ideas", "2", "--run-dir", "run", *given]
        moved = "run-dir" in dict(case.options)
        if tried([*launch, "--dry-run"]) == 0 and launched and not moved:
            look_at(folder, tried(launch))


def _write(case: Configuration, folder: Path) -> list[str]:
    """Put a configuration where it is read; return the options that say so."""
    for name, text in case.files:
        (folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    for name, how in case.saved:
        (folder / name).write_bytes(REWRITTEN[how]((folder / name).read_bytes()))
    ODD_FILES["itself"](folder / "circle")
    for name, kind in case.odd:
        (folder / name).unlink(missing_ok=True)
        ODD_FILES[kind](folder / name)
    os.environ.update(dict(case.variables))
    named = {name for name, _ in (*case.files, *case.odd)}
    if "user.toml" in named:
        os.environ["HPCSCI_CONFIG"] = str(folder / "user.toml")
    options = {"recipe": "./topic"} | ({"site": "site.toml"} if "site.toml" in named else {})
    options |= {name: value for name, value in case.options if "\0" not in value}
    return [f"--{name}={value}" for name, value in options.items()]
