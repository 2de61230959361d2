"""`hpcsci bench slurm` and `bench serving`: what a cluster gives, beside the bare thing."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import click

from hpcscientist.cli.benches.output import dir_option, json_option, show, tell
from hpcscientist.cli.shared.options import settings_from, site_options
from hpcscientist.cli.shared.signals import interruptible, unwind_on
from hpcscientist.errors import UsageError
from hpcscientist.files.handed.place import expanded

_SLURM = ("long", "short", "driver")
_SERVING = ("throughput", "start", "replicas")


@click.command("slurm")
@json_option
@site_options
@dir_option("Where nodes see what lies here [this folder].")
@click.option("--part", "parts", multiple=True, type=click.Choice(_SLURM), help="Only this [all].")
@click.option("--trials", type=click.IntRange(1), help="Trials of a makespan [100 and 400].")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    type=click.IntRange(1),
    help="Trials for the driver [50, 500 and 5000].",
)
@click.option("--runs", type=click.IntRange(1), default=1, show_default=True)
def slurm(
    as_json: bool,
    folder: Path,
    parts: tuple[str, ...],
    trials: int | None,
    sizes: tuple[int, ...],
    runs: int,
    **given: Any,
) -> None:
    """Trials on Slurm, beside a bare array of the same container commands.

    The parts: `long`, 100 trials of 10 s, one an array task; `short`, 400 of 1 s, packed;
    `driver`, what driving trials takes. Without --image (or HPCSCI_TEST_IMAGE) there is no
    container.
    """
    from hpcscientist.bench.slurm import figures as found  # noqa: PLC0415 (imports pyarrow)
    from hpcscientist.config.site import load_site  # noqa: PLC0415 (imports pydantic)

    unwind_on(signal.SIGTERM, signal.SIGHUP)  # the jobs are cancelled then too
    settings = settings_from(**given)
    image = settings.image or os.environ.get("HPCSCI_TEST_IMAGE")
    options = found.Options(
        folder=folder,
        site=load_site(settings.site, Path.cwd(), settings.slurm),
        image=str(expanded(image).absolute()) if image else None,
        parts=parts or _SLURM,
        trials=trials,
        sizes=sizes or found.SIZES,
        runs=runs,
    )
    if options.image is not None and not Path(options.image).exists():
        raise UsageError(f"--image {options.image}: does not exist; see containers/README.md")
    show(found.figures(options, lambda text: tell("slurm", text)), as_json)


@click.command("serving")
@json_option
@click.option("--model", metavar="SPEC", help="vllm:PATH [random weights, made on the spot].")
@click.option("--gpu", is_flag=True, help="Sizes for one GPU: throughput alone, in three minutes.")
@click.option("--site", metavar="FILE", help="A site profile; examples in slurm/sites.")
@dir_option("For weights and logs while it measures [this folder].")
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(_SERVING), help="Only this [all]."
)
@click.option(
    "--requests",
    "in_flight",
    multiple=True,
    type=click.IntRange(1, 512),
    help="Requests in flight at once [1, 8 and 64; with --gpu 256 too].",
)
@click.option(
    "--prompt", "characters", type=click.IntRange(1), default=128, show_default=True, metavar="N"
)
@click.option("--tokens", type=click.IntRange(1), help="[64; with --gpu 128].", metavar="N")
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
def serving(
    as_json: bool, model: str | None, gpu: bool, site: str | None, folder: Path, **given: Any
) -> None:
    """Served models, beside vLLM alone with the same engine settings, on this machine.

    The parts: `throughput`, tokens per second as a campaign gets them, and the time to the first
    token, beside `LLM.chat`; `start`, that time cold and warm; `replicas`, two beside one.
    --prompt: characters of each prompt, --tokens: of each reply. On a cluster, run it in a job on
    one node.
    """
    from hpcscientist.bench.serving import figures as found  # noqa: PLC0415 (imports pydantic)
    from hpcscientist.config.site import load_site  # noqa: PLC0415

    settings = settings_from(site=site)
    given["in_flight"] = tuple(dict.fromkeys(given["in_flight"]))
    sizes = found.ON_GPU if gpu else {}
    options = found.Options(
        folder=folder,
        site=load_site(settings.site, Path.cwd(), settings.slurm),
        settings=settings,
        model=found.folder_of(model, Path.cwd()) if model else None,
        **(sizes | {name: value for name, value in given.items() if value}),
    )
    with interruptible():
        show(found.figures(options, lambda text: tell("serving", text)), as_json)
