"""What several commands share: settings from all layers, and the run directory argument."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from hpcscientist.config.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])


def run_directory(command: F) -> F:
    """Add the argument DIR."""
    return click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))(command)


def settings_from(**command_line: Any) -> Settings:
    """Resolve the settings of this process; an option that was not given is None."""
    from hpcscientist.config.layers import resolve  # noqa: PLC0415 (imports pydantic)

    return resolve(command_line, os.environ, Path.cwd())[0]
