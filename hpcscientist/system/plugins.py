"""Loads plugins of other packages: stages, backends, strategies, models, importers of recipes.

A package registers them as entry points in its pyproject.toml, for example

    [project.entry-points."hpcscientist.stages"]
    ethics = "my_package.ethics:STAGE"

They run in the driver, with its rights, and never in a worker or beside a candidate. A campaign
freezes the package and release of each plugin, and can resume only with that release.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any, Literal

from hpcscientist.errors import RunDirectoryError, UsageError
from hpcscientist.files.text import one_line

Group = Literal["stages", "backends", "strategies", "models", "importers"]


@dataclass(frozen=True, slots=True)
class Plugin:
    """The object of an entry point; `origin` is its package, with the version."""

    name: str
    origin: str
    value: Any


@cache
def load(group: Group, ours: frozenset[str] = frozenset()) -> Mapping[str, Plugin]:
    """Return the plugins that other packages add to a group, by name, sorted by name.

    `ours` are names that are taken. Raises UsageError, naming the package, for a plugin that cannot
    be imported or whose name is taken.
    """
    found: dict[str, Plugin] = {}
    for entry in sorted(entry_points(group=f"hpcscientist.{group}"), key=lambda e: e.name):
        plugin = _loaded(group, entry)
        other = found.get(entry.name)
        if entry.name in ours or other is not None:
            whose = other.origin if other is not None else "hpcscientist itself"
            raise UsageError(
                f"{plugin.origin}: {group} {entry.name!r} is {whose}'s name already; uninstall one"
            )
        found[entry.name] = plugin
    return found


def _loaded(group: Group, entry: EntryPoint) -> Plugin:
    of = entry.dist
    origin = f"{of.name} {of.version}" if of is not None else entry.value
    try:
        return Plugin(entry.name, origin, entry.load())
    except Exception as error:
        raise UsageError(
            f"{origin}: {group} {entry.name!r} ({entry.value}) cannot be imported: "
            f"{type(error).__name__}: {one_line(str(error))}; fix or uninstall that package"
        ) from error


def origins(used: Mapping[Group, Collection[str]]) -> tuple[str, ...]:
    """Return the other packages, with their versions, that provide any of these names."""
    found = {
        plugin.origin
        for group, names in used.items()
        for name, plugin in load(group).items()
        if name in names
    }
    return tuple(sorted(found))


def require(wanted: Collection[str]) -> None:
    """Raise RunDirectoryError unless these packages are installed in these versions."""
    for origin in wanted:
        name, _, known = origin.rpartition(" ")
        try:
            here = version(name)
        except PackageNotFoundError:
            here = ""
        if here != known:
            raise RunDirectoryError(
                f"this campaign was launched with {origin}, and {here or 'none'} is installed; "
                f"install {name}=={known}"
            )
