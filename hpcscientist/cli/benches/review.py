"""`hpcsci bench review` and `bench scientist`: how far reviewers err, and Scientist-Bench."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import click

from hpcscientist.cli.benches.output import dir_option, json_option, tell
from hpcscientist.cli.shared.options import settings_from
from hpcscientist.cli.shared.signals import interruptible, unwind_on
from hpcscientist.errors import UsageError
from hpcscientist.files.handed.place import expanded
from hpcscientist.files.text import printable


@click.command("review")
@json_option
@click.option("--labelled", metavar="DIR", help="Papers with human scores and decisions.")
@click.option("--planted", is_flag=True, help="Errors planted in papers, beside their clean twins.")
@click.option(
    "--paper", "papers", multiple=True, metavar="DIR", help="With --planted: of hpcsci paper."
)
@click.option("--model", default="", metavar="SPEC", help="Who reviews [the setting review.model].")
@click.option("--form", "form_name", default="", metavar="NAME", help="[ai-scientist]")
@click.option("--ensemble", type=click.IntRange(1, 99), default=5, show_default=True, metavar="N")
@click.option(
    "--reflections", type=click.IntRange(1, 99), default=5, show_default=True, metavar="N"
)
@click.option(
    "--temperature", type=click.FloatRange(0, 2), default=0.75, show_default=True, metavar="T"
)
@click.option("--limit", type=click.IntRange(0), default=0, metavar="N", help="Papers [all].")
@click.option("--out", default="reviews", metavar="DIR", help="Where reviews lie [reviews].")
def review(
    as_json: bool, labelled: str | None, planted: bool, papers: tuple[str, ...], **given: Any
) -> None:
    """How far a reviewer errs, each figure with its interval.

    --labelled: the map from scores to decisions is fitted on one half of the papers and measured
    on the other; the calibration that comes of it is what `hpcsci review --calibration` takes.
    --planted: errors of known kinds in papers, and alarms on the same papers without them.
    """
    from hpcscientist.reviews import form  # noqa: PLC0415 (late, as all others)
    from hpcscientist.reviews.review import Wanted  # noqa: PLC0415

    if bool(labelled) == planted:
        raise UsageError("give one of --labelled DIR and --planted")
    here = Path.cwd()
    unwind_on(signal.SIGTERM, signal.SIGHUP)
    wanted = Wanted(
        form=form.load(given["form_name"] or form.DEFAULT, here),
        settings=settings_from(),
        out=(here / expanded(given["out"])).absolute(),
        model=given["model"],
        ensemble=given["ensemble"],
        reflections=given["reflections"],
        temperature=given["temperature"],
        tell=lambda text: tell("review", printable(text)),
    )
    if labelled:
        from hpcscientist.reviews.calibration import bench, table  # noqa: PLC0415
        from hpcscientist.reviews.calibration import labelled as sets  # noqa: PLC0415

        folder = (here / expanded(labelled)).absolute()
        found = sets.read(folder, given["limit"], wanted.settings.seed)
        report = bench.calibrate(found, wanted, wanted.tell)
        lines = table.of_report(report)
        said = report.model_dump_json()
    else:
        from hpcscientist.reviews.planted import bench as planting  # noqa: PLC0415

        places = [(here / expanded(paper)).absolute() for paper in papers]
        result = planting.measure(places, wanted, given["limit"])
        lines, said = planting.lines(result), result.model_dump_json()
    if as_json:
        click.echo(said)
    else:
        for line in lines:
            click.echo(printable(line))


@click.command("scientist")
@json_option
@click.argument("instances", metavar="INSTANCE...", nargs=-1, required=True)
@click.option("--model", metavar="SPEC", help="Who proposes, codes, judges code and writes.")
@click.option("--ideas", type=click.IntRange(1), metavar="N", help="Of each campaign [20].")
@click.option("--judges", multiple=True, metavar="SPEC", help="Who compares; may be repeated.")
@click.option("--samples", type=click.IntRange(2), default=16, show_default=True, metavar="N")
@dir_option("Where campaigns and comparisons lie; the same command goes on there [this folder].")
@click.option("--allow-unsandboxed", is_flag=True, default=None, help="As of `hpcsci launch`.")
def scientist(
    as_json: bool,
    instances: tuple[str, ...],
    judges: tuple[str, ...],
    samples: int,
    folder: Path,
    **given: Any,
) -> None:
    """Scientist-Bench: instances run as campaigns, their papers compared with the target papers.

    An instance is a folder with instance.toml (see hpcscientist/bench/README.md), or a folder of
    such folders.
    """
    from hpcscientist.bench import scientist as found  # noqa: PLC0415 (late, as all others)
    from hpcscientist.config.layers import default_private_root  # noqa: PLC0415
    from hpcscientist.files import vault  # noqa: PLC0415

    if samples % 2:
        raise UsageError(f"--samples {samples}: give an even number; half have the papers swapped")
    here, settings = Path.cwd(), settings_from(**given)
    vault.use_root(default_private_root(settings))
    known = found.read([(here / expanded(instance)).absolute() for instance in instances])
    options = found.Options(settings, folder, judges, samples)
    with interruptible():
        results = found.measure(known, options, lambda text: tell("scientist", printable(text)))
    if as_json:
        for result in results:
            click.echo(result.model_dump_json())
    else:
        for line in found.lines(results):
            click.echo(printable(line))
