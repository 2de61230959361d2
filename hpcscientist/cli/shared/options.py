"""What several commands share: settings from all layers, and the run directory argument."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hpcscientist.errors import HpcsciError
from hpcscientist.files import vault

if TYPE_CHECKING:
    from hpcscientist.config.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])


def run_directory(command: F) -> F:
    """Add the argument DIR. Keys and trusted copies of campaigns lie where the labels do."""
    kind = click.Path(path_type=Path)
    return click.argument("directory", metavar="DIR", type=kind, callback=_settled)(command)


def run_directories(command: F) -> F:
    """Add the argument DIR..., one or more; otherwise as `run_directory`."""

    def settled(
        context: click.Context, parameter: click.Parameter, directories: tuple[Path, ...]
    ) -> tuple[Path, ...]:
        return tuple(filter(None, (_settled(context, parameter, one) for one in directories)))

    kind = click.Path(path_type=Path)
    return click.argument(
        "directories", metavar="DIR...", type=kind, nargs=-1, required=True, callback=settled
    )(command)


def optional_run_directory(command: F) -> F:
    """Add the argument DIR, which may be left out: None then."""
    kind = click.Path(path_type=Path)
    return click.argument(
        "directory", metavar="[DIR]", type=kind, required=False, callback=_settled
    )(command)


def _settled(
    context: click.Context, parameter: click.Parameter, directory: Path | None
) -> Path | None:
    from hpcscientist.config.layers import default_private_root  # noqa: PLC0415 (as below)

    # To stop a campaign needs no configuration, and must not fail for want of one.
    needless = (HpcsciError, OSError) if context.info_name == "cancel" else ()
    with contextlib.suppress(*needless):
        vault.use_root(default_private_root(settings_from()))
    return directory


_SITE_OPTIONS = (
    click.option("--site", metavar="FILE", help="A site profile; examples in slurm/sites."),
    click.option("--account", metavar="A", help="Slurm account [the profile's]."),
    click.option("--partition", metavar="P", help="Slurm partition [the profile's]."),
    click.option("--qos", metavar="Q", help="Slurm QOS [the profile's]."),
    click.option("--constraint", metavar="C", help="Slurm constraint [the profile's]."),
    click.option("--image", metavar="PATH", help="A container image [the recipe's]."),
)
_OF_TRIALS = ("--site", "--account", "--partition", "--qos", "--constraint")
# Options whose key lies in a section of the configuration.
_SECTIONS = {
    **dict.fromkeys(("account", "partition", "qos", "constraint"), "slurm"),
    **dict.fromkeys(("mode", "instruction"), "proposing"),
    "library": "literature",
    "decision": "loop",
}


def site_options(command: F) -> F:
    """Add the options that say where on a cluster and in which image things run."""
    for option in reversed(_SITE_OPTIONS):
        command = option(command)
    return command


def place_options(command: F) -> F:
    """Add the options that say where on a cluster things run."""
    for option in reversed(_SITE_OPTIONS[:-1]):
        command = option(command)
    return command


def other_site(command: F) -> F:
    """Add the options by which a campaign's further trials are submitted otherwise."""
    for name in reversed(_OF_TRIALS):
        text = f"Another {name[2:]} for the trials to come."
        command = click.option(name, default="", metavar=name[2].upper(), help=text)(command)
    return command


def settings_from(**command_line: Any) -> Settings:
    """Resolve the settings of this process; an option that was not given is None."""
    from hpcscientist.config.layers import resolve  # noqa: PLC0415 (imports pydantic)

    given = {f"{_SECTIONS[k]}.{k}" if k in _SECTIONS else k: v for k, v in command_line.items()}
    return resolve(given, os.environ, Path.cwd())[0]
