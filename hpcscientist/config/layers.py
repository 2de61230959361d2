"""Layers of configuration: command line over variables over files over defaults.

    command line  >  HPCSCI_* variables  >  ./hpcsci.toml  >  the user's file  >  defaults

A key is written with dots (`loop.q`); its variable is HPCSCI_LOOP_Q. The user's file is
$HPCSCI_CONFIG, or hpcscientist/config.toml in $XDG_CONFIG_HOME (~/.config).
"""

from __future__ import annotations

import contextlib
import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from hpcscientist.config import partitions, sbatch
from hpcscientist.config.settings import Settings, SlurmOverrides
from hpcscientist.errors import ConfigError, SiteError
from hpcscientist.files import handed, vault
from hpcscientist.files.handed import expanded, read_regular
from hpcscientist.records.base import misfit
from hpcscientist.records.site import PartitionChoice, Site

# Keys of a TOML document. They are dotted; a record defines the valid ones, and an error for an
# unknown key names the nearest valid one.

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its origin."""

    key: str
    value: Any
    origin: str


def defaults(model: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    """Return every key of a record with its default, without the sections themselves."""
    return _values(model(), prefix)


def _values(record: BaseModel, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in type(record).model_fields:
        value = getattr(record, name)
        if isinstance(value, BaseModel):
            found |= _values(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def read_file(path: Path, keys: Mapping[str, Any]) -> dict[str, Value]:
    """Return the values in a file, by key.

    Raises ConfigError when the file cannot be read or has an unknown key, FileNotFoundError when
    it does not exist.
    """
    try:
        data = handed.parse(read_regular(path).decode("utf-8"))
    except FileNotFoundError:
        raise
    except PermissionError as error:
        fix = f"go to a folder that you may read, or ask for access to {path.parent}"
        raise ConfigError(f"{path}: may not be read: {error.strerror}; {fix}") from error
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(f"{path}: cannot be read: {why}; fix or remove it") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}; fix or remove it") from error
    sections = {key[:end] for key in keys for end, c in enumerate(key) if c == "."}
    return {
        known(key, keys, str(path)): Value(key, value, str(path))
        for key, value in _flatten(data, keys)
        if not (key in sections and value == {})  # an empty table of a known name
    }


REMOVED = {"serving.fan_out": "requests go to all replicas without it"}
"""Settings of earlier releases, which old run directories may hold, and why they were removed."""


def known(key: str, keys: Iterable[str], origin: str) -> str:
    """Return the key if it is valid. Raises ConfigError with the nearest valid key."""
    valid = list(keys)
    if key in valid:
        return key
    if key in REMOVED:
        raise ConfigError(
            f"{origin}: there is no setting {key} any more; remove it: {REMOVED[key]}"
        )
    near = difflib.get_close_matches(key, valid, n=1, cutoff=0.0)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"{origin}: unknown key {key!r}{hint}")


def validated(model: type[M], values: Mapping[str, Value]) -> M:
    """Return the record built from the values. Raises ConfigError naming origin and key."""
    tree: dict[str, Any] = {}
    keys = defaults(model)
    for key, entry in values.items():
        odd = misfit(entry.value) or _nul(entry.value)
        if odd is not None:
            raise ConfigError(_blame(entry, odd, entry.value))
        *sections, name = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[name] = _as_meant(entry.value, keys[key])
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        # If one item of a list is wrong, the place is longer than the key.
        place = [".".join(map(str, first["loc"][:n])) for n in range(len(first["loc"]), 0, -1)]
        key = next(key for key in place if key in values)
        where = place[0].removeprefix(key).strip(".")
        said = f"{where}: {first['msg']}" if isinstance(values[key].value, list) else first["msg"]
        raise ConfigError(_blame(values[key], said, first["input"])) from error


def _nul(value: Any) -> str | None:
    """Return an error if a text has a NUL, which no path, name or argument can hold; else None."""
    texts = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(text, str) and "\0" in text for text in texts):
        return "must hold no NUL character"
    return None


def _blame(value: Value, message: str, given: object) -> str:
    option = value.key.rpartition(".")[2].replace("_", "-")
    name = f"--{option}" if value.origin == "command line" else f"{value.origin}: {value.key}"
    return f"{name}: {message}, not {given!r}"


def _as_meant(value: Any, default: Any) -> Any:
    """Return a value as the default's type: int as float, and list as tuple.

    TOML and people write 5 for a float, and arrays for tuples; strict records refuse both.
    """
    if isinstance(default, float) and type(value) is int:
        return float(value)
    return _tuples(value) if isinstance(default, tuple) and isinstance(value, list) else value


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return {k: _tuples(v) for k, v in value.items()} if isinstance(value, dict) else value


def _flatten(
    data: Mapping[str, Any], keys: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        key = f"{prefix}{name}"
        # A key whose default is a table takes a whole table, with any names in it.
        if isinstance(value, dict) and value and not isinstance(keys.get(key), dict):
            yield from _flatten(value, keys, f"{key}.")
        else:
            yield key, value


# HPCSCI_* variables that are not settings: the user's file, the endpoint's key, keys and addresses
# of literature services, the marks of a trial's processes, and variables of the tests and the
# development cluster.
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
    """Merge all layers; return the settings, and each value with its origin.

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
            fix = "name one that is there, or unset it"
            raise ConfigError(f"variable HPCSCI_CONFIG: {named} does not exist; {fix}") from error
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
    """Return the folder of prepared public data: paths.data, or one in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(expanded("~/.cache"))
    return Path(settings.paths.data or Path(cache) / "hpcscientist" / "data").absolute()


def default_private_root(settings: Settings) -> Path:
    """Return the folder of labels: paths.private, or one in the user's state folder."""
    return Path(settings.paths.private or vault.default_root()).absolute()


# Reads a launch's site profile: a TOML file (examples in slurm/sites), below the command line.


# In order of precedence, as in sbatch. sacct reads neither; other commands read only the first.
_CLUSTER_VARIABLES = ("SLURM_CLUSTERS", "SBATCH_CLUSTERS")


def load_site(path: str, folder: Path, overrides: SlurmOverrides | None = None) -> Site:
    """Return the site profile in a file, "" for the defaults; see `resolve_site`."""
    return resolve_site(path, folder, overrides)[0]


def resolve_site(
    path: str,
    folder: Path,
    overrides: SlurmOverrides | None = None,
    environment: Mapping[str, str] = os.environ,
) -> tuple[Site, list[Value]]:
    """Merge a site profile; return it, and each value with its origin.

    `path` is relative to `folder`, "" means no file; `overrides` that are not "" take precedence.
    If sbatch would take a cluster from the environment, the profile takes it too, so that every
    command addresses that cluster. Raises ConfigError naming file and key, with the nearest valid
    one, and SiteError.
    """
    keys = defaults(Site)
    values = {key: Value(key, default, "default") for key, default in keys.items()}
    if path:
        file = folder / expanded(path)
        try:
            values |= read_file(file, keys)
        except FileNotFoundError as error:
            raise ConfigError(
                f"{file}: there is no such site profile; copy one from slurm/sites"
            ) from error
    rows = values["partitions"]
    for number, row in enumerate(rows.value if isinstance(rows.value, list) else ()):
        for name in row if isinstance(row, dict) else ():
            known(name, PartitionChoice.model_fields, f"{rows.origin}: [[partitions]] {number + 1}")
    given = {k: v for k, v in (overrides or SlurmOverrides()).model_dump().items() if v}
    site = partitions.overridden(validated(Site, values), given)
    for name, word in given.items():
        values[f"slurm.{name}"] = Value(f"slurm.{name}", word, f"setting slurm.{name}")
    if rows.value and not site.partitions:
        values[rows.key] = Value(rows.key, (), "setting slurm.partition")
    try:
        cluster = _check(site)
    except SiteError as error:
        raise SiteError(error.code, f"{file}: {error}" if path else str(error)) from error
    for variable in _CLUSTER_VARIABLES:
        if environment.get(variable) and not cluster:
            cluster = environment[variable]
            site = site.model_copy(
                update={"slurm": site.slurm.model_copy(update={"cluster": cluster})}
            )
            key = "slurm.cluster"
            values[key] = Value(key, cluster, f"variable {variable}")
    return site, [values[key] for key in keys]


def _check(site: Site) -> str:
    """Return the cluster of a profile. Raises SiteError for options that it must not contain."""
    for number, row in enumerate(site.partitions, start=1):
        where = f"[[partitions]] {number}"
        found = sbatch.extra_of(row.extra, where, memory=site.slurm.memory)
        if found.cluster:
            raise SiteError("clusters", f"{where}: one cluster has them all; name it in [slurm]")
    for gres in (site.slurm.gres, *(row.gres for row in site.partitions if row.gres)):
        if site.slurm.gpu_option != "gres" and not gres.startswith("gpu:"):
            raise SiteError(
                "gpu_option", f"gres = {gres!r}: begin it with gpu: where gpu_option is not gres"
            )
    sbatch.extra_of_trials(site.slurm)
    sbatch.extra_of_controller(site)
    return sbatch.cluster_of(site.slurm)
