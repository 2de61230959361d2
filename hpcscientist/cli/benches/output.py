"""What all benchmarks of the command line share: their options, and how figures are shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hpcscientist.bench import figure as figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpcscientist.bench.figure import Figure

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="A JSON array on stdout.")(command)


def dir_option(text: str) -> Callable[[F], F]:
    """Add --dir, a folder that exists; `text` says what for."""
    kind = click.Path(file_okay=False, resolve_path=True, path_type=Path)
    return click.option(
        *("--dir", "folder"),
        metavar="DIR",
        default=".",
        type=kind,
        callback=_that_exists,
        help=text,
    )


def _that_exists(context: click.Context, option: click.Parameter, folder: Path) -> Path:
    if not folder.is_dir():
        raise click.BadParameter(f"{folder} does not exist; make it, or give another folder")
    return folder


def tell(name: str, text: str) -> None:
    """Say on stderr what a benchmark is doing."""
    click.echo(f"bench {name}: {text}", err=True)


def show(found: Sequence[Figure], as_json: bool) -> None:
    """Print figures on stdout, as lines or as the JSON array of contract 1."""
    if as_json:
        click.echo(figures.as_json(list(found)), nl=False)
        return
    for entry in found:
        line = f"{entry.name}: {entry.value:.4g} {entry.unit}"
        line += f" (spread {entry.spread:.2g}, {entry.runs} runs)"
        if entry.compared_with:
            line += f", compared with {entry.compared_with}"
        if entry.ratio is not None:
            line += f": ratio {entry.ratio:.3f}"
        if entry.target is not None:
            bound = "at least" if entry.at_least else "at most"
            said = "met" if entry.is_met else "NOT met"
            line += f" (target {bound} {entry.target:g}: {said})"
        click.echo(line)
