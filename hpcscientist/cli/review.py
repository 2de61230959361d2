"""`hpcsci review` and `hpcsci compare`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import click

from hpcscientist.cli.shared.options import settings_from, unwind_on
from hpcscientist.errors import UsageError
from hpcscientist.files.handed import expanded
from hpcscientist.files.text import printable
from hpcscientist.records.reviews import Review
from hpcscientist.reviews import calibrated, compare, form, page, paper
from hpcscientist.reviews.review import ReviewOptions, examples_of, load
from hpcscientist.reviews.review import review as review_papers


@click.command()
@click.argument("papers", metavar="PAPER...", nargs=-1, required=True)
@click.option("--model", default="", metavar="SPEC", help="Reviewing model [review.model].")
@click.option(
    "--form",
    "form_name",
    default=form.DEFAULT,
    show_default=True,
    metavar="NAME",
    help=f"{', '.join(form.names())}, or a folder with form.toml.",
)
@click.option("--ensemble", type=click.IntRange(1, 99), default=5, show_default=True, metavar="N")
@click.option(
    "--reflections",
    type=click.IntRange(1, 99),
    default=5,
    show_default=True,
    metavar="N",
    help="Maximum rounds of each reviewer, including the first.",
)
@click.option(
    "--temperature", type=click.FloatRange(0, 2), default=0.75, show_default=True, metavar="T"
)
@click.option("--examples", metavar="DIR", help="Example reviews: NAME.txt (or .pdf), NAME.json.")
@click.option("--calibration", metavar="FILE", help="Made by `hpcsci bench review`.")
@click.option("--before", metavar="REVIEW", help="Review before the revision: reviews/ID.")
@click.option("--out", default="reviews", metavar="DIR", help="Folder for reviews [reviews].")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per paper on stdout.")
def review(papers: tuple[str, ...], form_name: str, as_json: bool, **given: Any) -> int:
    """Review papers: PDF, LaTeX file, folder or archive, or plain text.

    Several model reviewers fill in the form independently and revise their answers; an area chair
    summarizes them. If a paper tells its reviewers what to do, the review quotes that text and no
    reviewer sees it. After an interruption, run the same command again to continue. Reviews are
    never used to choose ideas.
    """
    here = Path.cwd()
    unwind_on(signal.SIGTERM, signal.SIGHUP)
    found = form.load(form_name, here)
    if given["before"] and len(papers) > 1:
        raise UsageError("--before: works with one paper; review the others separately")
    wanted = ReviewOptions(
        form=found,
        settings=settings_from(),
        out=_place(here, given["out"]),
        model=given["model"],
        ensemble=given["ensemble"],
        reflections=given["reflections"],
        temperature=given["temperature"],
        examples=examples_of(_place(here, given["examples"]), found) if given["examples"] else (),
        calibration=calibrated.load(_place(here, given["calibration"]))
        if given["calibration"]
        else None,
        before=load(_place(here, given["before"])) if given["before"] else None,
        tell=lambda text: _say("review", text),
    )
    reviews = review_papers([_place(here, one) for one in papers], wanted)
    for made in reviews:
        if not isinstance(made, Review):
            _say("review", f"{made.paper}: not reviewed: {made.reason}")
        elif as_json:
            click.echo(made.model_dump_json())
        else:
            click.echo(printable(f"{made.paper}: {made.title}"))
            for text in page.verdict(made):
                click.echo(f"  {printable(text)}")
            for text in page.findings(made.findings):
                click.echo(f"  {printable(text)}")
    return 0 if all(isinstance(made, Review) for made in reviews) else 1


@click.command("compare")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option(
    "--judges",
    "judges",
    multiple=True,
    metavar="SPEC",
    help="A model that judges; may be repeated [review.model].",
)
@click.option(
    "--samples",
    type=click.IntRange(2, 998),
    default=16,
    show_default=True,
    metavar="N",
    help="Comparisons by each judge, half of them with the papers swapped.",
)
@click.option("--out", default="reviews", metavar="DIR", help="Folder for comparisons [reviews].")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def compare_papers(
    first: str, second: str, judges: tuple[str, ...], samples: int, out: str, as_json: bool
) -> None:
    """Compare two papers in each aspect of Scientist-Bench, from -3 (A is far worse) to 3."""
    here = Path.cwd()
    unwind_on(signal.SIGTERM, signal.SIGHUP)
    if samples % 2:
        raise UsageError(f"--samples {samples}: give an even number; half have the papers swapped")
    paths = (_place(here, first), _place(here, second))
    wanted = compare.ComparisonOptions(
        settings=settings_from(),
        out=_place(here, out),
        judges=judges,
        samples=samples,
        paths=paths,
        tell=lambda text: _say("compare", text),
    )
    made = compare.compare(paper.read(paths[0]), paper.read(paths[1]), wanted)
    if as_json:
        click.echo(made.model_dump_json())
    else:
        for text in page.comparison_lines(made):
            click.echo(printable(text))


def _place(here: Path, given: str) -> Path:
    return (here / expanded(given)).absolute()


def _say(command: str, text: str) -> None:
    click.echo(f"{command}: {printable(text)}", err=True)
