"""`hpcsci bench NAME`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import click

from hpcscientist.bench import figure as figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpcscientist.bench.figure import Figure

BENCHMARKS = ("startup", "makespan", "results")


@click.command()
@click.argument("name", type=click.Choice(BENCHMARKS))
@click.option("--json", "as_json", is_flag=True, help="A JSON array on stdout.")
def bench(name: str, as_json: bool) -> None:
    """Measure this machine; each figure stands beside what it is compared with."""
    module: Any = importlib.import_module(f"hpcscientist.bench.{name}")
    click.echo(f"bench {name}: measuring, please wait", err=True)
    found: list[Figure] = module.figures()
    if as_json:
        click.echo(figures.as_json(found), nl=False)
        return
    _print(found)


def _print(found: Sequence[Figure]) -> None:
    for entry in found:
        line = f"{entry.name}: {entry.value:.4g} {entry.unit}"
        line += f" (spread {entry.spread:.2g}, {entry.runs} runs)"
        if entry.compared_with:
            line += f", compared with {entry.compared_with}"
        if entry.ratio is not None:
            line += f": ratio {entry.ratio:.3f}"
        if entry.target is not None:
            reached = (entry.value if entry.ratio is None else entry.ratio) <= entry.target
            line += f" (target at most {entry.target:g}: {'met' if reached else 'NOT met'})"
        click.echo(line)
