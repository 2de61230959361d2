"""`python tests/benchmarks NAME`: figures for who changes the code; `hpcsci bench` has a user's.

Each stands beside what it is compared with, as a line or, with --json, as in contract 1.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks import campaign_commands, decision_commands
from hpcscientist.cli import main
from hpcscientist.cli.bench import Benchmarks, dir_option, json_option, show, tell
from hpcscientist.cli.shared.options import interruptible, settings_from

PLAIN = {
    "makespan": "How well the loop overlaps thinking and experiments.",
    "one_idea": "How much of the package one idea passes through.",
    "results": "Reading a campaign's results.",
}
_PARTS_LIBRARY = ("pdfs", "abstracts")


@click.group(cls=Benchmarks, context_settings={"help_option_names": ["-h", "--help"]})
def benchmarks() -> None:
    """Measure the code; each figure stands beside what it is compared with."""


def run(arguments: Sequence[str]) -> int:
    """Run a benchmark and return its exit code; errors become one line on stderr."""
    return main.run(arguments, benchmarks)


def _add(name: str) -> None:
    @benchmarks.command(name, help=PLAIN[name])
    @json_option
    def measure(as_json: bool) -> None:
        module: Any = importlib.import_module(f"benchmarks.{name}")
        tell(name, "measuring, please wait")
        show(module.figures(), as_json)


for _name in PLAIN:
    _add(_name)


@benchmarks.command("ranking")
@json_option
@click.option("--model", metavar="SPEC", help="Who judges papers [their words, without a model].")
@click.option("--topics", type=click.IntRange(1), metavar="N", help="Only the first N [all].")
def ranking(as_json: bool, model: str | None, topics: int | None) -> None:
    """What ranking by task attributes keeps out of a survey: papers on a wrong task.

    The measure of Dolphin's table 4, on generated libraries whose papers' tasks are known. With
    --model each topic takes one request a paper, 50 by default.
    """
    from benchmarks import ranking as found  # noqa: PLC0415 (imports pydantic)

    options = found.Options(settings=settings_from(), model=model, topics=topics)
    with interruptible():
        show(found.figures(options, lambda text: tell("ranking", text)), as_json)


@benchmarks.command("bank")
@json_option
@click.option("--rows", type=click.IntRange(1), default=1_000_000, show_default=True, metavar="N")
@click.option("--width", type=click.IntRange(64), default=384, show_default=True, metavar="N")
@click.option("--ideas", type=click.IntRange(1), default=50, show_default=True, metavar="N")
@click.option("--runs", type=click.IntRange(1), default=5, show_default=True)
def bank(as_json: bool, **sizes: int) -> None:
    """The check of new ideas against a bank of earlier ones, beside a bare matrix product.

    --rows: ideas in the bank, --width: numbers of a vector, --ideas: new ideas.
    """
    from benchmarks import bank as found  # noqa: PLC0415 (imports numpy)

    tell("bank", f"measuring with {sizes['rows'] * sizes['width'] * 4 / 2**20:.0f} MiB of vectors")
    show(found.figures(**sizes), as_json)


@benchmarks.command("tracebacks")
@json_option
@click.option("--runs", type=click.IntRange(1), default=1, show_default=True)
def tracebacks(as_json: bool, runs: int) -> None:
    """Frames read from the logs of broken experiments, beside a plain regular expression.

    Most of the experiments are run, which takes some ten seconds; precision and recall are
    measured against labels.
    """
    from benchmarks import tracebacks as found  # noqa: PLC0415 (imports pydantic)

    show(found.figures(runs, lambda text: tell("tracebacks", text)), as_json)


@benchmarks.command("retrieval")
@json_option
@click.option("--embedding-model", metavar="FOLDER", help="Of sentence-transformers [none].")
@click.option("--size", type=click.IntRange(20), default=600, show_default=True, metavar="N")
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, metavar="N")
def retrieval(as_json: bool, embedding_model: str | None, size: int, seeds: int) -> None:
    """Share of a task's papers that searches by keyword, by embedding and by both find.

    On generated libraries of --size papers whose tasks are known, one a seed. Vectors are of
    --embedding-model, else of latent semantic analysis.
    """
    from benchmarks.retrieval import figures as found  # noqa: PLC0415 (imports pyarrow)
    from hpcscientist.config.settings import EmbeddingSettings  # noqa: PLC0415

    embedding = EmbeddingSettings(model=embedding_model or "")
    options = found.Options(size=size, seeds=seeds, embedding=embedding)
    measured = found.measure(options, lambda text: tell("retrieval", text))
    if as_json:
        show(found.figures(measured), as_json)
    else:
        click.echo(f"{found.table(measured)}\nvectors: {measured.embedder}")


@benchmarks.command("library")
@json_option
@dir_option("For PDFs and libraries while it measures [this folder].")
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(_PARTS_LIBRARY), help="Only this [all]."
)
@click.option("--pdfs", type=click.IntRange(1), default=300, show_default=True, metavar="N")
@click.option(
    "--abstracts", type=click.IntRange(1), default=100_000, show_default=True, metavar="N"
)
@click.option("--queries", type=click.IntRange(1), default=300, show_default=True, metavar="N")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes [one a core].")
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
def library(
    as_json: bool, folder: Path, parts: tuple[str, ...], jobs: int | None, **sizes: int
) -> None:
    """Building a library and searching it, beside bare text extraction and a bare index.

    The parts: `pdfs`, documents a second beside PyMuPDF's plain text of the same files;
    `abstracts`, documents a second, memory, and the time of a search.
    """
    from benchmarks.library import figures as found  # noqa: PLC0415 (late, as all above)

    options = found.Options(folder=folder, parts=parts or _PARTS_LIBRARY, jobs=jobs, **sizes)
    with interruptible():
        show(found.figures(options, lambda text: tell("library", text)), as_json)


@benchmarks.command("serving-path")
@json_option
@dir_option("For weights and logs while it measures [this folder].")
@click.option(
    "--python", default=sys.executable, metavar="PATH", help="It has vLLM and Ray [this]."
)
@click.option("--requests", "in_flight", multiple=True, type=click.IntRange(1, 512), metavar="N")
@click.option("--tokens", type=click.IntRange(1), default=128, show_default=True, metavar="N")
@click.option("--runs", type=click.IntRange(1), default=5, show_default=True)
def serving_path(as_json: bool, folder: Path, in_flight: tuple[int, ...], **given: Any) -> None:
    """What stands before a served model, beside vLLM alone, at the speed of a GPU, without one.

    The engine is vLLM's with a worker that computes nothing and takes an H200's time for a step.
    --requests: in flight at once [1, 8, 64 and 256]; --tokens: of each reply.
    """
    from benchmarks.serving_path import figures as found  # noqa: PLC0415 (late, as all above)

    options = found.Options(folder, in_flight=in_flight or found.IN_FLIGHT, **given)
    with interruptible():
        show(found.figures(options, lambda text: tell("serving-path", text)), as_json)


@benchmarks.command("authoring")
@json_option
@click.option("--recipe", metavar="R", help="A recipe's name or folder [digits].")
@click.option("--model", metavar="SPEC", help="http://HOST:PORT/v1#NAME or playbook[:FILE].")
@click.option("--ideas", type=click.IntRange(1), default=15, show_default=True, metavar="N")
@click.option("--rounds", type=click.IntRange(1, 100), default=5, show_default=True, metavar="N")
@click.option("--seed-ideas", is_flag=True, help="The recipe's ideas, not the model's proposals.")
@click.option("--seed", type=int, metavar="N", help="Of the model's replies and the trials.")
@click.option("--image", metavar="PATH", help="A container image [the recipe's].")
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Its folder, to go on with or a new one [in scratch/].",
)
@click.option(
    "--allow-unsandboxed",
    is_flag=True,
    default=None,
    help="Run generated code without a sandbox.",
)
def authoring(
    as_json: bool, rounds: int, seed_ideas: bool, folder: Path | None, **given: Any
) -> None:
    """Debugging with no code structure, with all of it, and guided by the traceback.

    Dolphin's table 5: each idea is written once, and where its pilot fails it is fixed in each of
    the three modes, in at most --rounds rounds. Trials run on this machine: on a cluster, give the
    command in a job. The same command with its --dir goes on after any interruption.
    """
    from benchmarks.authoring import figures as found  # noqa: PLC0415 (late, as all above)
    from benchmarks.authoring.conduct import measure  # noqa: PLC0415
    from benchmarks.authoring.preparing import Options  # noqa: PLC0415
    from hpcscientist.config.layers import default_private_root  # noqa: PLC0415
    from hpcscientist.files import vault  # noqa: PLC0415
    from hpcscientist.files.text import printable  # noqa: PLC0415

    settings = settings_from(**given)
    vault.use_root(default_private_root(settings))
    options = Options(settings, rounds, folder, seed_ideas)
    with interruptible():
        measured = measure(options, Path.cwd(), lambda text: tell("authoring", printable(text)))
    if as_json:
        show(found.figures(measured), as_json)
    click.echo(found.table(measured), err=as_json)


for _command in (
    campaign_commands.loop,
    campaign_commands.steady,
    campaign_commands.claims,
    campaign_commands.sweep,
    campaign_commands.conduct,
    decision_commands.null,
    decision_commands.power,
):
    benchmarks.add_command(_command)
