"""Options and arguments that several commands share, and the settings from all layers."""

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
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from hpcscientist.errors import Interrupted

# Handling of the signals that ask a command to stop.


# Slurm sends SIGUSR1 some time before a job's time limit.
_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


def unwind_on(*numbers: signal.Signals) -> None:
    """Make signals act like Ctrl-C, so that the command cleans up its files, jobs and processes."""
    _raise_at_first(numbers, KeyboardInterrupt)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted at the first signal that asks to stop."""
    _raise_at_first(_STOP, lambda name: Interrupted(f"stopped by {name}"))
    yield


def _raise_at_first(
    numbers: Iterable[signal.Signals], error: Callable[[str], BaseException]
) -> None:
    """Raise an error at the first signal, and ignore later ones so that the cleanup can finish.

    A terminal that closes may send two signals.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        for other in _STOP:
            signal.signal(other, signal.SIG_IGN)
        raise error(signal.Signals(number).name)

    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
            signal.signal(number, on_signal)


F = TypeVar("F", bound=Callable[..., Any])


def run_directory(command: F) -> F:
    """Add the argument DIR, and set the private root, which holds keys and trusted copies."""
    kind = click.Path(path_type=Path)
    return click.argument("directory", metavar="DIR", type=kind, callback=_settled)(command)


def run_directories(command: F) -> F:
    """Add the argument DIR... for one or more directories; otherwise like `run_directory`."""

    def settled(
        context: click.Context, parameter: click.Parameter, directories: tuple[Path, ...]
    ) -> tuple[Path, ...]:
        return tuple(filter(None, (_settled(context, parameter, one) for one in directories)))

    kind = click.Path(path_type=Path)
    return click.argument(
        "directories", metavar="DIR...", type=kind, nargs=-1, required=True, callback=settled
    )(command)


def optional_run_directory(command: F) -> F:
    """Add the optional argument DIR, None if it is left out; otherwise like `run_directory`."""
    kind = click.Path(path_type=Path)
    return click.argument(
        "directory", metavar="[DIR]", type=kind, required=False, callback=_settled
    )(command)


def _settled(
    context: click.Context, parameter: click.Parameter, directory: Path | None
) -> Path | None:
    from hpcscientist.config.layers import default_private_root  # noqa: PLC0415 (as below)

    # `cancel` needs no configuration, and must work even if the configuration is broken.
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
# The configuration section of each option whose key is in one.
_SECTIONS = {
    **dict.fromkeys(("account", "partition", "qos", "constraint"), "slurm"),
    **dict.fromkeys(("mode", "instruction"), "proposing"),
    "library": "literature",
    "decision": "loop",
}


def site_options(command: F) -> F:
    """Add the options for the place on a cluster and the container image."""
    for option in reversed(_SITE_OPTIONS):
        command = option(command)
    return command


def place_options(command: F) -> F:
    """Add the options for the place on a cluster."""
    for option in reversed(_SITE_OPTIONS[:-1]):
        command = option(command)
    return command


def other_site(command: F) -> F:
    """Add the options that change how a campaign's remaining trials are submitted."""
    for name in reversed(_OF_TRIALS):
        text = f"Use another {name[2:]} for the remaining trials."
        command = click.option(name, default="", metavar=name[2].upper(), help=text)(command)
    return command


def settings_from(**command_line: Any) -> Settings:
    """Return the settings from all layers; None stands for an option that was not given."""
    from hpcscientist.config.layers import resolve  # noqa: PLC0415 (imports pydantic)

    given = {f"{_SECTIONS[k]}.{k}" if k in _SECTIONS else k: v for k, v in command_line.items()}
    return resolve(given, os.environ, Path.cwd())[0]
