"""The entry point: the command list, exit codes, and errors as one line on stderr.

Exit codes: 0 done, 1 failed, 2 usage error, 3 finished but no trial was scored,
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
from hpcscientist.system.lean import spare_pandas, start_quickly


class LazyGroup(click.Group):
    """A Click group that imports a command's module only when the command runs.

    `hpcsci --help` then imports Click and no command. `lazy` maps a command's name to
    `module:attribute` and its short help. Commands without a short help are internal and not
    listed.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands' names in the order of their declaration."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; return None if there is none of that name."""
        if cmd_name not in self._lazy:
            return None
        module, _, attribute = self._lazy[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        spare_pandas()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands and their short helps, without importing the commands."""
        with formatter.section("Commands"):
            shown = [(name, text) for name, (_, text) in self._lazy.items() if text]
            formatter.write_dl(shown)


INTERRUPTED = 130

COMMANDS = {
    "launch": ("hpcscientist.cli.launch:launch", "Start a campaign."),
    "resume": ("hpcscientist.cli.launch:resume", "Resume a campaign after any interruption."),
    "cancel": ("hpcscientist.cli.cancel:cancel", "Stop a campaign; leave nothing running."),
    "status": ("hpcscientist.cli.status:status", "Show the progress of a campaign."),
    "results": ("hpcscientist.cli.results:results", "Show the ideas and their results."),
    "report": ("hpcscientist.cli.report:report", "Write campaigns as one HTML page."),
    "watch": ("hpcscientist.cli.watch:watch", "Watch a campaign in this terminal."),
    "reproduce": ("hpcscientist.cli.reproduce:reproduce", "Rerun an idea; check its result."),
    "paper": ("hpcscientist.cli.paper:paper", "Write papers; each number links to its record."),
    "review": ("hpcscientist.cli.review:review", "Review papers with language models."),
    "compare": ("hpcscientist.cli.review:compare_papers", "Compare two papers, in both orders."),
    "recipe": ("hpcscientist.cli.recipe:recipe", "List, make and check recipes."),
    "library": (
        "hpcscientist.cli.library:library",
        "Build and search libraries of papers and code.",
    ),
    "config": ("hpcscientist.cli.config:config", "Show each setting and where it is set."),
    "controller": ("hpcscientist.cli.shared.controlled:controller", ""),
    "serve": ("hpcscientist.cli.serve:serve", "Serve models without a campaign."),
    "doctor": ("hpcscientist.cli.doctor:doctor", "Check this machine and site."),
    "bench": ("hpcscientist.cli.bench:bench", "Measure this machine."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hpcsci")
@click.option("--debug", is_flag=True, help="Show tracebacks of errors.")
def cli(debug: bool) -> None:
    """Closed-loop automated research, on a laptop or a Slurm cluster."""


def run(arguments: Sequence[str], command: click.Command = cli) -> int:
    """Run a command line and return its exit code; print an error as one line on stderr."""
    debug = "--debug" in arguments
    rest = [a for a in arguments if a != "--debug"] or ["--help"]
    try:
        _check_working_directory()
        code = command.main(rest, prog_name="hpcsci", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # the reader of our output is gone, as in `hpcsci results | head`
        sys.stderr.close()
        return 1
    except (click.ClickException, click.Abort, KeyboardInterrupt) as error:
        return _fail(*_explain(error))
    except Exception as error:
        if debug:
            raise
        return _fail(*_explain(error))


def _check_working_directory() -> None:
    """Raise UsageError if the working directory was deleted: relative paths need it."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise UsageError(
            "the working directory was deleted; change to a folder that exists"
        ) from error


def _explain(error: BaseException) -> tuple[str, int]:
    """Return an error's message and exit code."""
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
            return f"{error}; set a UTF-8 locale, and use names that are valid UTF-8", 1
    unknown = f"unexpected {type(error).__name__}: {error}; --debug shows the traceback"
    return limit_met(error) or unknown, 1


def _limit_behind(error: HpcsciError) -> str:
    """Return the process limit that caused an error; "" if none did or the error names it."""
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
    start_quickly()
    try:
        adapt_to_limits()
    except UsageError as error:
        sys.exit(_fail(*_explain(error)))
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
