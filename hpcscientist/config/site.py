"""The site profile of a launch: a TOML file (examples in slurm/sites), the command line over it."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.config.keys import Value, defaults, read_file, validated
from hpcscientist.config.settings import SlurmOverrides
from hpcscientist.errors import ConfigError
from hpcscientist.files.handed.place import expanded
from hpcscientist.records.site import Site


def load_site(path: str, folder: Path, overrides: SlurmOverrides | None = None) -> Site:
    """Return the site profile in a file, "" for the defaults; see `resolve_site`."""
    return resolve_site(path, folder, overrides)[0]


def resolve_site(
    path: str, folder: Path, overrides: SlurmOverrides | None = None
) -> tuple[Site, list[Value]]:
    """Merge a site profile, and list each value with its origin.

    `path` is relative to `folder`, "" means no file; `overrides` that are not "" beat it.
    Raises ConfigError naming file and key, with the nearest valid one.
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
    for name, given in (overrides or SlurmOverrides()).model_dump().items():
        if given:
            key = f"slurm.{name}"
            values[key] = Value(key, given, f"setting {key}")
    return validated(Site, values), [values[key] for key in keys]
