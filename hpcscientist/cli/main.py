"""The entry point: the command list, exit codes, and errors as one line on stderr.

Exit codes: 0 done, 1 failed, 2 wrong use, 3 finished but no trial was scored,
130 interrupted.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from hpcscientist import __version__
from hpcscientist.errors import HpcsciError, UsageError
from hpcscientist.system.inherited import adapt_to_limits, limit_met, reset_signals

# A Click group that imports a command's module when the command is run, not before.


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


INTERRUPTED = 130

COMMANDS = {
    "launch": ("hpcscientist.cli.launch:launch", "Start a campaign."),
    "resume": ("hpcscientist.cli.launch:resume", "Go on after any interruption."),
    "cancel": ("hpcscientist.cli.cancel:cancel", "Stop a campaign; leave nothing running."),
    "status": ("hpcscientist.cli.status:status", "Where a campaign stands."),
    "results": ("hpcscientist.cli.results:results", "The ideas and what came of them."),
    "report": ("hpcscientist.cli.report:report", "Campaigns as one page for a browser."),
    "watch": ("hpcscientist.cli.watch:watch", "Watch a campaign on this terminal."),
    "reproduce": ("hpcscientist.cli.reproduce:reproduce", "Run a claim again: does it hold?"),
    "paper": ("hpcscientist.cli.paper:paper", "Papers in which no number is typed."),
    "review": ("hpcscientist.cli.review:review", "Review papers; how far that errs is told."),
    "compare": ("hpcscientist.cli.review:compare_papers", "Compare two papers, positions swapped."),
    "recipe": ("hpcscientist.cli.recipe:recipe", "List, make and check recipes."),
    "library": (
        "hpcscientist.cli.library:library",
        "Papers and code to look things up in.",
    ),
    "config": ("hpcscientist.cli.config:config", "Show the configuration and its origins."),
    "controller": ("hpcscientist.cli.shared.controlled:controller", ""),
    "serve": ("hpcscientist.cli.serve:serve", "Serve open weights, without a campaign."),
    "doctor": ("hpcscientist.cli.doctor:doctor", "What this machine and site offer and lack."),
    "bench": ("hpcscientist.cli.bench:bench", "Figures for this machine."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hpcsci")
@click.option("--debug", is_flag=True, help="Show tracebacks of errors.")
def cli(debug: bool) -> None:
    """Closed-loop automated research, on a laptop or a Slurm cluster."""


def run(arguments: Sequence[str], command: click.Command = cli) -> int:
    """Run a command line and return its exit code; errors become one line on stderr."""
    debug = "--debug" in arguments
    rest = [a for a in arguments if a != "--debug"] or ["--help"]
    try:
        _check_working_directory()
        code = command.main(rest, prog_name="hpcsci", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # the reader of our output has gone, as in `hpcsci results | head`
        sys.stderr.close()
        return 1
    except (click.ClickException, click.Abort, KeyboardInterrupt) as error:
        return _fail(*_explain(error))
    except Exception as error:
        if debug:
            raise
        return _fail(*_explain(error))


def _check_working_directory() -> None:
    """Raise UsageError where the folder that paths are relative to has been deleted."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise UsageError(
            "the working directory was deleted; go to a folder that is there"
        ) from error


def _explain(error: BaseException) -> tuple[str, int]:
    """Say in words what went wrong, and with which code to exit."""
    match error:
        case click.ClickException():
            return error.format_message(), error.exit_code
        case click.Abort() | KeyboardInterrupt():
            return "interrupted", INTERRUPTED
        case HpcsciError():
            return _limit_behind(error) or str(error), error.exit_code
        case OSError() if not limit_met(error):
            return _explain_os(error)
        case UnicodeError():
            return f"{error}; set a UTF-8 locale, and give names that are UTF-8", 1
    unknown = f"unexpected {type(error).__name__}: {error}; --debug shows where"
    return limit_met(error) or unknown, 1


def _limit_behind(error: HpcsciError) -> str:
    """Return the limit that made a file look at fault; "" where none did, or the error says it."""
    said = limit_met(error.__cause__) if error.__cause__ else ""
    return "" if said in str(error) else said


def _explain_os(error: OSError) -> tuple[str, int]:
    if error.errno == errno.ENAMETOOLONG:
        return f"{error.filename}: too long for this file system; give a shorter path", 2
    return f"{error.filename or 'input or output'}: {error.strerror}", 1


def _fail(message: str, code: int) -> int:
    line = " ".join("".join(c if c.isprintable() else " " for c in message).split())
    click.echo(f"hpcsci: {line}", err=True)
    return code


def main() -> None:
    """Run `hpcsci`."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: `hpcsci results DIR >&-`
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (until the end)
    reset_signals()
    try:
        adapt_to_limits()
    except UsageError as error:
        sys.exit(_fail(*_explain(error)))
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
