"""`hpcsci bench model`: what a language model makes of the loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hpcscientist.cli.benches.output import dir_option, json_option, show, tell
from hpcscientist.cli.shared.options import settings_from, site_options
from hpcscientist.cli.shared.signals import interruptible
from hpcscientist.errors import UsageError
from hpcscientist.files.text import printable


@click.command("model")
@json_option
@click.option("--model", metavar="SPEC", help="vllm:PATH, http://HOST:PORT/v1#NAME or playbook.")
@click.option("--recipe", metavar="R", help="A recipe's name or folder [digits].")
@click.option("--ideas", type=click.IntRange(1), default=12, show_default=True, metavar="N")
@click.option(
    "--seeds", type=click.IntRange(1), default=3, show_default=True, help="Campaigns, one a seed."
)
@click.option("--seed", type=int, metavar="N", help="The first campaign's seed.")
@click.option(
    "--without",
    "without",
    multiple=True,
    metavar="PART",
    help="Also run campaigns without survey, directions, reflection, novelty, feasibility, "
    "concepts, plan, review, structure or further-runs; or without each of them (all).",
)
@click.option("--no-control", is_flag=True, help="Leave the control arm's campaigns out.")
@click.option("--backend", metavar="auto|local|slurm|NAME", help="What runs the trials.")
@site_options
@dir_option("Where the campaigns lie; the same command goes on there [this folder].")
@click.option(
    "--allow-unsandboxed",
    is_flag=True,
    default=None,
    help="Run generated code although there is no sandbox.",
)
def model(
    as_json: bool,
    folder: Path,
    seeds: int,
    without: tuple[str, ...],
    no_control: bool,
    **given: Any,
) -> None:
    """What a model makes of the loop: by stage, by step of an idea, beside the control arm.

    Runs a campaign of --ideas ideas with each of --seeds seeds, and one of the control arm with
    the same seed. A `vllm:` model is loaded once a campaign; `hpcsci serve` and its http: SPEC
    load it once. With --without, what a part of the loop gives is the difference to campaigns
    that lack it, at the same seeds.
    """
    from rich.console import Console  # noqa: PLC0415 (late, as all others)

    from hpcscientist.bench.model import measure, table  # noqa: PLC0415
    from hpcscientist.config.layers import default_private_root  # noqa: PLC0415
    from hpcscientist.files import vault  # noqa: PLC0415

    settings = settings_from(**given)
    if settings.model == measure.CONTROL:
        raise UsageError("--model search is what models are compared with; give a model")
    vault.use_root(default_private_root(settings))
    parts = tuple(measure.PARTS) if "all" in without else tuple(dict.fromkeys(without))
    if unknown := [part for part in parts if part not in measure.PARTS]:
        raise UsageError(f"--without {unknown[0]}: give one of {', '.join(measure.PARTS)}, or all")
    options = measure.Options(settings, folder, seeds, control=not no_control, without=parts)
    with interruptible():
        pairs = measure.measure(options, lambda text: tell("model", printable(text)))
    if as_json:
        show(table.figures(pairs), as_json)
    table.show(pairs, Console(stderr=as_json))
