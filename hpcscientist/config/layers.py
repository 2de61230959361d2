"""Layers of configuration: command line over variables over files over defaults.

    command line  >  HPCSCI_* variables  >  ./hpcsci.toml  >  the user's file  >  defaults

A key is written with dots (`loop.q`); its variable is HPCSCI_LOOP_Q. The user's file is
$HPCSCI_CONFIG, or hpcscientist/config.toml in $XDG_CONFIG_HOME (~/.config).
"""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hpcscientist.config.keys import Value, defaults, known, read_file, validated
from hpcscientist.config.settings import Settings
from hpcscientist.errors import ConfigError
from hpcscientist.files import handed, vault
from hpcscientist.files.handed import expanded

# Variables with the prefix that are no keys: the user's file, the endpoint's key, keys and
# addresses of literature services, the marks of a trial's processes, what the tests and the
# development cluster are told.
KEY_VARIABLES = ("HPCSCI_API_KEY", "HPCSCI_S2_API_KEY", "HPCSCI_OPENALEX_API_KEY")  # secrets
RESERVED = frozenset(
    {
        *KEY_VARIABLES,
        "HPCSCI_CONFIG",
        "HPCSCI_S2_URL",
        "HPCSCI_ARXIV_URL",
        "HPCSCI_OPENALEX_URL",
        "HPCSCI_MAILTO",
        "HPCSCI_CAMPAIGN",
        "HPCSCI_TRIAL",
        "HPCSCI_TEST_IMAGE",
        "HPCSCI_DEVCLUSTER_DIR",
        "HPCSCI_DEVCLUSTER_USER",
        "HPCSCI_DEVCLUSTER_IMAGE",
    }
)


def resolve(
    command_line: Mapping[str, Any], environ: Mapping[str, str], folder: Path
) -> tuple[Settings, list[Value]]:
    """Merge all layers into settings, and list each value with its origin.

    `command_line` maps keys to values; None means not given. Raises ConfigError for an
    unknown key, with the nearest valid one, and for an invalid value.
    """
    keys = defaults(Settings)
    values = {key: Value(key, default, "default") for key, default in keys.items()}
    named = environ.get("HPCSCI_CONFIG")
    if named:
        try:
            values |= read_file(Path(named), keys)
        except FileNotFoundError as error:
            mend = "name one that is there, or unset it"
            raise ConfigError(f"variable HPCSCI_CONFIG: {named} does not exist; {mend}") from error
    unnamed = [] if named else [_user_file(environ)]
    for path in (*unnamed, folder / "hpcsci.toml"):
        with contextlib.suppress(FileNotFoundError):
            values |= read_file(path, keys)
    for key, value, origin in _from_variables(environ, keys):
        values[key] = Value(key, value, origin)
    for key, value in command_line.items():
        if value is not None:
            values[known(key, keys, "command line")] = Value(key, value, "command line")
    return validated(Settings, values), [values[key] for key in keys]


def _user_file(environ: Mapping[str, str]) -> Path:
    home = environ.get("XDG_CONFIG_HOME") or str(expanded("~/.config"))
    return Path(home) / "hpcscientist" / "config.toml"


def _from_variables(
    environ: Mapping[str, str], keys: Mapping[str, Any]
) -> Iterator[tuple[str, Any, str]]:
    names = {"HPCSCI_" + key.upper().replace(".", "_"): key for key in keys}
    for name in sorted(environ):
        if not name.startswith("HPCSCI_") or name in RESERVED:
            continue
        key = names[known(name, names, "environment")]
        raw = environ[name]
        value: Any = raw
        if not isinstance(keys[key], str):
            try:
                parsed = handed.parse(f"value = {raw}")
                value = parsed["value"] if len(parsed) == 1 else raw
            except tomllib.TOMLDecodeError:
                value = raw
        yield key, value, f"variable {name}"


def default_data_root(settings: Settings) -> Path:
    """Where prepared public data is kept: paths.data, or the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(expanded("~/.cache"))
    return Path(settings.paths.data or Path(cache) / "hpcscientist" / "data").absolute()


def default_private_root(settings: Settings) -> Path:
    """Where labels are kept: paths.private, or the user's state folder; never with the data."""
    return Path(settings.paths.private or vault.default_root()).absolute()
