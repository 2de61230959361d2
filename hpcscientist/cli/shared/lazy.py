"""A Click group that imports a command's module when the command is run, not before."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """Commands are named as `module:attribute` with their short help, and imported late.

    One without a short help is not for people, and not listed.

    So `hpcsci --help` costs an import of Click and of this package's command line only.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order they were declared."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if there is none of that name."""
        if cmd_name not in self._lazy:
            return None
        module, _, attribute = self._lazy[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from their short helps, without importing them."""
        with formatter.section("Commands"):
            shown = [(name, text) for name, (_, text) in self._lazy.items() if text]
            formatter.write_dl(shown)
