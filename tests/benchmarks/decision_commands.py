"""`benchmarks null` and `benchmarks power`: decisions about ideas whose true effects are known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hpcscientist.cli.bench import F, json_option, show, tell

_POWER_SEEDS = (3, 5, 10)


def _simulated(campaigns: int) -> Callable[[F], F]:
    """Add what simulated campaigns are given."""

    def add(command: F) -> F:
        for option in (
            click.option(
                "--campaigns",
                type=click.IntRange(2),
                default=campaigns,
                show_default=True,
                metavar="N",
            ),
            click.option(
                "--ideas", type=click.IntRange(1), default=50, show_default=True, metavar="N"
            ),
            click.option(
                "--q",
                type=click.FloatRange(0, 1, min_open=True, max_open=True),
                default=0.05,
                show_default=True,
                help="The share of false findings that the rules allow.",
            ),
            click.option(
                "--correlation",
                type=click.FloatRange(0, 1, max_open=True),
                default=0.5,
                show_default=True,
                help="Of two methods with the same seed.",
            ),
            click.option(
                "--seed",
                type=click.IntRange(0),
                default=0,
                show_default=True,
                metavar="N",
                help="Of the simulation.",
            ),
        ):
            command = option(command)
        return command

    return add


@click.command("null")
@json_option
@_simulated(campaigns=8000)
@click.option("--seeds", type=click.IntRange(2), default=5, show_default=True, metavar="N")
@click.option(
    "--allocation",
    type=click.Choice(["fixed", "sequential", "halving"]),
    default="fixed",
    show_default=True,
    help="How many seeds ideas get in the search.",
)
def null(as_json: bool, seeds: int, q: float, allocation: Any, **world: Any) -> None:
    """How often campaigns claim an improvement where no idea is one.

    Simulated campaigns, decided on by the code of the loop: each idea gets --seeds seeds, and what
    is found is confirmed with as many fresh ones on the test split. Beside stands the point rule,
    which takes any better mean for an improvement.
    """
    from benchmarks.decisions import null as found  # noqa: PLC0415 (imports numpy)
    from benchmarks.decisions.world import World  # noqa: PLC0415

    measured = found.measure(World(**world), seeds, q, allocation, lambda text: tell("null", text))
    if as_json:
        show(found.figures(measured, q), as_json)
    click.echo(found.table(measured, q), err=as_json)


@click.command("power")
@json_option
@_simulated(campaigns=500)
@click.option(
    "--seeds",
    "numbers",
    multiple=True,
    type=click.IntRange(2),
    metavar="N",
    help="Of each idea; may be repeated [3, 5 and 10].",
)
@click.option(
    "--intended",
    type=click.IntRange(2),
    default=5,
    show_default=True,
    metavar="N",
    help="The recipe's seeds, of which sequential allocation gives up to twice as many.",
)
@click.option(
    "--figure",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw power and exaggeration: a .png or .svg. Needs matplotlib.",
)
def power(
    as_json: bool,
    numbers: tuple[int, ...],
    intended: int,
    q: float,
    figure: Path | None,
    **world: Any,
) -> None:
    """What each rule finds of planted effects, and what adaptive allocation saves.

    Simulated campaigns with true effects from -2 to +2 standard deviations: power, sign errors and
    exaggeration, as the search finds and as confirmation leaves them. Then, over a mix of ideas,
    the trials of adaptive allocation beside those of a fixed number of seeds with equal power.
    """
    from benchmarks.decisions import effort, plot  # noqa: PLC0415 (imports numpy)
    from benchmarks.decisions import power as found  # noqa: PLC0415
    from benchmarks.decisions.world import World  # noqa: PLC0415

    def say(text: str) -> None:
        tell("power", text)

    if figure is not None:
        plot.check(figure)
    simulated = World(**world)
    seeds = tuple(sorted(set(numbers))) or _POWER_SEEDS
    measured = found.measure(simulated, seeds, q, say)
    saved = effort.measure(simulated, intended, q, say)
    if figure is not None:
        plot.draw(measured, figure)
        say(f"drawn: {figure}")
    if as_json:
        show([*found.figures(measured), *effort.figures(saved, q)], as_json)
    click.echo(f"{found.table(measured)}\n\n{effort.table(saved)}", err=as_json)
