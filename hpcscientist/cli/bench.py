"""`hpcsci bench NAME`."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hpcscientist.bench import figure as figures
from hpcscientist.cli.shared.options import interruptible, settings_from, site_options, unwind_on
from hpcscientist.errors import UsageError
from hpcscientist.files.handed import expanded
from hpcscientist.files.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpcscientist.bench.figure import Figure


# Options and output that all benchmarks share.

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="A JSON array on stdout.")(command)


def dir_option(text: str) -> Callable[[F], F]:
    """Add --dir, which must be an existing folder; `text` is its help."""
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
    """Print a benchmark's progress on stderr."""
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


# `hpcsci bench slurm` and `bench serving`: trials and model servers, compared with plain Slurm and
# plain vLLM.

_SLURM = ("long", "short", "driver")
_SERVING = ("throughput", "start", "replicas")


@click.command("slurm")
@json_option
@site_options
@dir_option("A folder that nodes can see [this folder].")
@click.option("--part", "parts", multiple=True, type=click.Choice(_SLURM), help="Only this [all].")
@click.option("--trials", type=click.IntRange(1), help="Trials per makespan [100 and 400].")
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
    """Compare trials on Slurm with a plain array job of the same container commands.

    The parts: `long`, 100 trials of 10 s, one per array task; `short`, 400 trials of 1 s, packed;
    `driver`, the cost of driving trials. Without --image (or HPCSCI_TEST_IMAGE) no container is
    used.
    """
    from hpcscientist.bench.slurm import figures as found  # noqa: PLC0415 (imports pyarrow)
    from hpcscientist.config.layers import load_site  # noqa: PLC0415 (imports pydantic)

    unwind_on(signal.SIGTERM, signal.SIGHUP)  # the unwinding cancels the jobs
    settings = settings_from(**given)
    image = settings.image or os.environ.get("HPCSCI_TEST_IMAGE")
    options = found.SlurmOptions(
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
@click.option("--gpu", is_flag=True, help="Sizes for one GPU: only throughput, in three minutes.")
@click.option("--site", metavar="FILE", help="A site profile; examples in slurm/sites.")
@dir_option("For weights and logs during the measurement [this folder].")
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
    """Compare served models with plain vLLM at the same engine settings, on this machine.

    The parts: `throughput`, a campaign's tokens per second and time to the first token, compared
    with `LLM.chat`; `start`, the time from a cold and a warm start to the first token; `replicas`,
    two replicas compared with one. --prompt: characters of each prompt, --tokens: tokens of each
    reply. On a cluster, run this in a job on one node.
    """
    from hpcscientist.bench.serving import figures as found  # noqa: PLC0415 (imports pydantic)
    from hpcscientist.config.layers import load_site  # noqa: PLC0415

    settings = settings_from(site=site)
    given["in_flight"] = tuple(dict.fromkeys(given["in_flight"]))
    sizes = found.ON_GPU if gpu else {}
    options = found.ServingOptions(
        folder=folder,
        site=load_site(settings.site, Path.cwd(), settings.slurm),
        settings=settings,
        model=found.folder_of(model, Path.cwd()) if model else None,
        **(sizes | {name: value for name, value in given.items() if value}),
    )
    with interruptible():
        show(found.figures(options, lambda text: tell("serving", text)), as_json)


# `hpcsci bench model`: how well a language model works in the loop.


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
    "--ablate",
    multiple=True,
    metavar="PART",
    help="Also run campaigns without survey, directions, reflection, novelty, feasibility, "
    "concepts, plan, analysis, review, structure or further-runs, or with it if it is off for a "
    "model of this size; all: each of them.",
)
@click.option("--no-control", is_flag=True, help="Leave the control arm's campaigns out.")
@click.option("--backend", metavar="auto|local|slurm|NAME", help="What runs the trials.")
@site_options
@dir_option("For the campaigns; run the same command again to continue [this folder].")
@click.option(
    "--allow-unsandboxed",
    is_flag=True,
    default=None,
    help="Run generated code without a sandbox.",
)
def model(
    as_json: bool,
    folder: Path,
    seeds: int,
    ablate: tuple[str, ...],
    no_control: bool,
    **given: Any,
) -> None:
    """Measure how well a model works in the loop, by stage and by step, against the control arm.

    Runs a campaign of --ideas ideas for each of --seeds seeds, and a control arm's campaign with
    the same seed. A `vllm:` model is loaded once per campaign; to load it only once, start `hpcsci
    serve` and give its http: SPEC. With --ablate, campaigns that lack a part of the loop, or
    have one more, run too at the same seeds: the difference is what the part contributes.
    """
    from rich.console import Console  # noqa: PLC0415 (late, as all others)

    from hpcscientist.bench.model import measure, table  # noqa: PLC0415
    from hpcscientist.config.layers import default_private_root  # noqa: PLC0415
    from hpcscientist.files import vault  # noqa: PLC0415

    settings = settings_from(**given)
    if settings.model == measure.CONTROL:
        raise UsageError("--model search is the control arm; give another model")
    vault.use_root(default_private_root(settings))
    parts = tuple(measure.PARTS) if "all" in ablate else tuple(dict.fromkeys(ablate))
    if unknown := [part for part in parts if part not in measure.PARTS]:
        raise UsageError(f"--ablate {unknown[0]}: give one of {', '.join(measure.PARTS)}, or all")
    options = measure.ModelOptions(settings, folder, seeds, control=not no_control, ablate=parts)
    with interruptible():
        pairs = measure.measure(options, lambda text: tell("model", printable(text)))
    if as_json:
        show(table.figures(pairs), as_json)
    table.show(pairs, Console(stderr=as_json))


# `hpcsci bench review` and `bench scientist`: the error rates of reviewers, and Scientist-Bench.


@click.command("review")
@json_option
@click.option("--labelled", metavar="DIR", help="Papers with human scores and decisions.")
@click.option("--planted", is_flag=True, help="Plant errors in papers; compare with clean copies.")
@click.option(
    "--paper", "papers", multiple=True, metavar="DIR", help="With --planted: by hpcsci paper."
)
@click.option("--model", default="", metavar="SPEC", help="Reviewing model [review.model].")
@click.option("--form", "form_name", default="", metavar="NAME", help="[ai-scientist]")
@click.option("--ensemble", type=click.IntRange(1, 99), default=5, show_default=True, metavar="N")
@click.option(
    "--reflections", type=click.IntRange(1, 99), default=5, show_default=True, metavar="N"
)
@click.option(
    "--temperature", type=click.FloatRange(0, 2), default=0.75, show_default=True, metavar="T"
)
@click.option("--limit", type=click.IntRange(0), default=0, metavar="N", help="Papers [all].")
@click.option("--out", default="reviews", metavar="DIR", help="Folder for reviews [reviews].")
def review(
    as_json: bool, labelled: str | None, planted: bool, papers: tuple[str, ...], **given: Any
) -> None:
    """Measure the error rates of a reviewer, each with its confidence interval.

    --labelled: fits the map from scores to decisions on one half of the papers, measures it on the
    other half, and writes the calibration for `hpcsci review --calibration`. --planted: counts how
    many errors of known kinds the reviewer finds, and its false alarms on the same papers without
    them.
    """
    from hpcscientist.reviews import form  # noqa: PLC0415 (late, as all others)
    from hpcscientist.reviews.review import ReviewOptions  # noqa: PLC0415

    if bool(labelled) == planted:
        raise UsageError("give one of --labelled DIR and --planted")
    here = Path.cwd()
    unwind_on(signal.SIGTERM, signal.SIGHUP)
    wanted = ReviewOptions(
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
        from hpcscientist.reviews.calibration import bench as calibrating  # noqa: PLC0415
        from hpcscientist.reviews.calibration import labelled as sets  # noqa: PLC0415

        folder = (here / expanded(labelled)).absolute()
        found = sets.read(folder, given["limit"], wanted.settings.seed)
        report = calibrating.calibrate(found, wanted, wanted.tell)
        lines = calibrating.of_report(report)
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
@click.option("--model", metavar="SPEC", help="Proposes, codes, reviews code and writes.")
@click.option("--ideas", type=click.IntRange(1), metavar="N", help="Ideas per campaign [20].")
@click.option("--judges", multiple=True, metavar="SPEC", help="Compares papers; repeatable.")
@click.option("--samples", type=click.IntRange(2), default=16, show_default=True, metavar="N")
@dir_option("For campaigns and comparisons; run the same command to continue [this folder].")
@click.option("--allow-unsandboxed", is_flag=True, default=None, help="As for `hpcsci launch`.")
def scientist(
    as_json: bool,
    instances: tuple[str, ...],
    judges: tuple[str, ...],
    samples: int,
    folder: Path,
    **given: Any,
) -> None:
    """Run Scientist-Bench instances as campaigns, and compare their papers with the target papers.

    An instance is a folder with instance.toml (its fields: hpcscientist/bench/README.md in the
    repository), or a folder of such folders.
    """
    from hpcscientist.bench import scientist as found  # noqa: PLC0415 (late, as all others)
    from hpcscientist.config.layers import default_private_root  # noqa: PLC0415
    from hpcscientist.files import vault  # noqa: PLC0415

    if samples % 2:
        raise UsageError(f"--samples {samples}: give an even number; half have the papers swapped")
    here, settings = Path.cwd(), settings_from(**given)
    vault.use_root(default_private_root(settings))
    known = found.read([(here / expanded(instance)).absolute() for instance in instances])
    options = found.ScientistOptions(settings, folder, judges, samples)
    with interruptible():
        results = found.measure(known, options, lambda text: tell("scientist", printable(text)))
    if as_json:
        for result in results:
            click.echo(result.model_dump_json())
    else:
        for line in found.lines(results):
            click.echo(printable(line))


class Benchmarks(click.Group):
    """A Click group whose error for an unknown benchmark lists all benchmarks."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the benchmark's command, or fail with the list of all benchmarks."""
        if args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"there is no benchmark {args[0]!r}; give one of {', '.join(self.commands)}")
        return super().resolve_command(ctx, args)


@click.group(cls=Benchmarks)
def bench() -> None:
    """Measure this machine; each figure is shown with what it is compared with."""


@bench.command("startup")
@json_option
def startup(as_json: bool) -> None:
    """Measure the time of `hpcsci --help`."""
    from hpcscientist.bench import startup as found  # noqa: PLC0415 (late, as all others)

    tell("startup", "measuring, please wait")
    show(found.figures(), as_json)


@bench.command("papers")
@json_option
def papers(as_json: bool) -> None:
    """Measure how many false statements about a campaign the checks of papers reject."""
    from hpcscientist.bench.papers import statements as found  # noqa: PLC0415

    show(found.figures(), as_json)


bench.add_command(slurm)
bench.add_command(serving)
bench.add_command(model)
bench.add_command(review)
bench.add_command(scientist)
