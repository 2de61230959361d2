"""`benchmarks loop|steady|claims|sweep|conduct`: whole campaigns."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from hpcscientist.cli.bench import dir_option, json_option, show, tell
from hpcscientist.cli.shared.options import settings_from, site_options
from hpcscientist.files.text import printable
from hpcscientist.records.site import BackendKind

_WHERE = "Where the campaigns lie; the same command goes on there [this folder]."


def _launched(command: Any) -> Any:
    """Add what a launch is given, as far as it makes sense here."""
    for option in (
        click.option("--recipe", metavar="R", help="A recipe's name or folder [digits]."),
        click.option(
            "--backend",
            type=click.Choice(["auto", *get_args(BackendKind)]),
            help="What runs the trials.",
        ),
        click.option("--seed", type=int, metavar="N", help="The first campaign's seed."),
        click.option(
            "--allow-unsandboxed",
            is_flag=True,
            default=None,
            help="Run generated code although there is no sandbox.",
        ),
    ):
        command = option(command)
    return command


@click.command("loop")
@json_option
@_launched
@site_options
@click.option("--model", metavar="SPEC", help="Who proposes and writes code [the recipe's].")
@click.option("--ideas", type=click.IntRange(1), default=20, show_default=True, metavar="N")
@click.option("--arm", "arms", multiple=True, metavar="ARM", help="Only these [all].")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, metavar="N")
@dir_option(_WHERE)
def loop(as_json: bool, folder: Path, arms: tuple[str, ...], repeats: int, **given: Any) -> None:
    """The loop whole, and with one part left out: feedback, ranking, bank, debugging, advisor.

    As the ablations of the papers: every arm runs a campaign with each of the same seeds and is
    compared with the whole loop pair by pair. `search` is the control arm.
    """
    from benchmarks.campaigns import loop as found  # noqa: PLC0415 (late, as all others)

    settings = _settled(given)
    options = found.Options(folder, settings, arms or tuple(found.ARMS), repeats)
    if (settings.model or "playbook").startswith("playbook"):
        tell("loop", found.RECORDED)
    measured = found.measure(options, lambda text: tell("loop", text))
    if as_json:
        show(found.figures(measured), as_json)
    click.echo(found.table(measured), err=as_json)


@click.command("steady")
@json_option
@_launched
@site_options
@click.option("--model", metavar="SPEC", default="search", show_default=True)
@click.option("--ideas", type=click.IntRange(1), default=40, show_default=True, metavar="N")
@click.option("--each", type=click.IntRange(1), default=10, show_default=True, metavar="N")
@click.option("--runs", type=click.IntRange(1), default=1, show_default=True, metavar="N")
@dir_option(_WHERE)
def steady(as_json: bool, folder: Path, each: int, runs: int, **given: Any) -> None:
    """A campaign whose ideas flow, beside the same with a barrier after each --each ideas."""
    from benchmarks.campaigns import steady as found  # noqa: PLC0415 (late, as all others)

    options = found.Options(folder, _settled(given), each, runs)
    show(found.figures(found.measure(options, lambda text: tell("steady", text))), as_json)


@click.command("claims")
@json_option
@_launched
@site_options
@click.option("--model", metavar="SPEC", default="playbook", show_default=True)
@click.option("--ideas", type=click.IntRange(1), default=22, show_default=True, metavar="N")
@click.option("--campaigns", type=click.IntRange(1), default=20, show_default=True, metavar="N")
@click.option(
    "--reproduce", is_flag=True, help="Run every confirmed claim again, and tampered ones."
)
@dir_option(_WHERE)
def claims(as_json: bool, folder: Path, campaigns: int, reproduce: bool, **given: Any) -> None:
    """The same ideas under many campaign seeds: are true ones confirmed, and false ones not?

    With --reproduce every confirmed claim is then run again, and so is one a campaign that was
    tampered with, in a copy.
    """
    from benchmarks.campaigns import claims as found  # noqa: PLC0415 (late, as all others)
    from benchmarks.campaigns import reproducing  # noqa: PLC0415 (likewise)

    settings = _settled(given)
    options = found.Options(folder, settings, campaigns)
    measured = found.measure(options, lambda text: tell("claims", text))
    click.echo(found.table(measured), err=as_json)
    figures = found.figures(measured, settings.loop.q)
    if reproduce:
        again = reproducing.measure(options, lambda text: tell("claims", text))
        figures += reproducing.figures(again)
        for line in (*reproducing.notes(again), *reproducing.failures(again)):
            click.echo(printable(line), err=as_json)
    show(figures, as_json)


@click.command("sweep")
@json_option
@click.option(
    "--at",
    "marks",
    multiple=True,
    type=click.IntRange(2),
    help="Measure at so many ideas; the most of them is the campaign's [30, 100, 300, 1000].",
)
@click.option("--seed", type=int, metavar="N", help="The campaign's seed.")
@click.option(
    "--allow-unsandboxed",
    is_flag=True,
    default=None,
    help="Run trials although there is no sandbox.",
)
@dir_option(_WHERE)
def sweep(as_json: bool, folder: Path, marks: tuple[int, ...], **given: Any) -> None:
    """What one more idea costs the driver, after few ideas and after many.

    A campaign of very short trials by --model search: the driver's memory, processor time and
    fsyncs, and the processor time of `status` and `results`. The same command with its --dir goes
    on after any interruption.
    """
    from benchmarks.sweep import figures as found  # noqa: PLC0415 (late, as all others)

    options = found.Options(folder, _settled(given), tuple(sorted(set(marks))) or found.MARKS)
    shown = found.figures(found.measure(options, lambda text: tell("sweep", text)), options.marks)
    click.echo(found.table(shown), err=as_json)
    if as_json:
        show(shown, as_json)


@click.command("conduct")
@json_option
@click.option(
    "--at",
    "counts",
    multiple=True,
    type=click.IntRange(1),
    help="So many ideas that are open, or have ended [100, 1000, 10000, 100000].",
)
@click.option(
    "--driven",
    default=64,
    show_default=True,
    type=click.IntRange(1),
    help="Ideas of the campaign of which is told what a driver does for a trial.",
)
def conduct(as_json: bool, counts: tuple[int, ...], driven: int) -> None:
    """What one decision of the driver costs, taking a campaign up again, and what a driver asks of
    disk and processor for each trial.

    Of histories that are made up, and of scripted ideas and trials: no model is asked.
    """
    from benchmarks.conduct import figures as found  # noqa: PLC0415 (late, as all others)

    options = found.Options(tuple(sorted(set(counts))) or found.COUNTS, driven)
    show(found.measure(options, lambda text: tell("conduct", text)), as_json)


def _settled(given: dict[str, Any]) -> Any:
    from hpcscientist.config.layers import default_private_root  # noqa: PLC0415 (imports pydantic)
    from hpcscientist.files import vault  # noqa: PLC0415 (likewise)

    settings = settings_from(**given)
    vault.use_root(default_private_root(settings))
    return settings
