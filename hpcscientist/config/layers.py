"""Layers of configuration: command line over variables over files over defaults.

    command line  >  HPCSCI_* variables  >  ./hpcsci.toml  >  the user's file  >  defaults

A key is written with dots (`loop.q`); its variable is HPCSCI_LOOP_Q. The user's file is
$HPCSCI_CONFIG, or hpcscientist/config.toml in $XDG_CONFIG_HOME (~/.config).
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from hpcscientist.config.settings import Settings
from hpcscientist.errors import ConfigError
from hpcscientist.files import sealed

# Variables with the prefix that are no keys: the user's file, the endpoint's key, the marks
# of a trial's processes, the image for the tests.
RESERVED = frozenset(
    {
        "HPCSCI_CONFIG",
        "HPCSCI_API_KEY",
        "HPCSCI_CAMPAIGN",
        "HPCSCI_TRIAL",
        "HPCSCI_TEST_IMAGE",
    }
)


@dataclass(frozen=True, slots=True)
class Value:
    """A value and where it came from."""

    key: str
    value: Any
    origin: str


def resolve(
    command_line: Mapping[str, Any], environ: Mapping[str, str], folder: Path
) -> tuple[Settings, list[Value]]:
    """Merge all layers into settings, and list each value with its origin.

    `command_line` maps keys to values; None means not given. Raises ConfigError for an
    unknown key, with the nearest valid one, and for an invalid value.
    """
    keys = dict(_keys(Settings))
    values = {key: Value(key, default, "default") for key, default in keys.items()}
    user = Path(environ.get("HPCSCI_CONFIG") or _user_file(environ))
    for path in (user, folder / "hpcsci.toml"):
        for key, value in _from_file(path):
            values[_known(key, keys, str(path))] = Value(key, value, str(path))
    for key, value, origin in _from_variables(environ, keys):
        values[key] = Value(key, value, origin)
    for key, value in command_line.items():
        if value is not None:
            values[key] = Value(key, value, "command line")
    return _validate(values), [values[key] for key in keys]


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field.default


def _user_file(environ: Mapping[str, str]) -> Path:
    home = environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    return Path(home) / "hpcscientist" / "config.toml"


def _from_file(path: Path) -> Iterator[tuple[str, Any]]:
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: is no regular file; mend or remove it")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}; mend or remove it") from error
    yield from _flatten(data)


def _flatten(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _from_variables(
    environ: Mapping[str, str], keys: Mapping[str, Any]
) -> Iterator[tuple[str, Any, str]]:
    names = {"HPCSCI_" + key.upper().replace(".", "_"): key for key in keys}
    for name in sorted(environ):
        if not name.startswith("HPCSCI_") or name in RESERVED:
            continue
        key = names[_known(name, names, "environment")]
        raw = environ[name]
        value: Any = raw
        if not isinstance(keys[key], str):
            try:
                parsed = tomllib.loads(f"value = {raw}")
                value = parsed["value"] if len(parsed) == 1 else raw
            except tomllib.TOMLDecodeError:
                value = raw
        yield key, value, f"variable {name}"


def _known(key: str, keys: Mapping[str, Any], origin: str) -> str:
    if key in keys:
        return key
    near = difflib.get_close_matches(key, list(keys), n=1, cutoff=0.0)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"{origin}: unknown key {key!r}{hint}")


def _validate(values: Mapping[str, Value]) -> Settings:
    tree: dict[str, Any] = {}
    for key, entry in values.items():
        *sections, name = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        # TOML and people write 5 where a float is meant; strict records refuse that.
        as_float = isinstance(_default(key), float) and type(entry.value) is int
        node[name] = float(entry.value) if as_float else entry.value
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        origin = values[key].origin
        option = key.replace("_", "-")
        name = f"--{option}" if origin == "command line" else f"{origin}: {key}"
        raise ConfigError(f"{name}: {first['msg']}, not {first['input']!r}") from error


def _default(key: str) -> Any:
    return dict(_keys(Settings))[key]


def default_data_root(settings: Settings) -> Path:
    """Where prepared public data is kept: paths.data, or the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(settings.paths.data or Path(cache) / "hpcscientist" / "data").absolute()


def default_private_root(settings: Settings) -> Path:
    """Where labels are kept: paths.private, or the user's state folder; never with the data."""
    return Path(settings.paths.private or sealed.default_root()).absolute()
