"""`hpcsci recipe list|new|check|import`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpcscientist.cli.shared.options import settings_from
from hpcscientist.errors import RecipeError, UsageError
from hpcscientist.files.handed import expanded
from hpcscientist.files.text import printable
from hpcscientist.importers import registry
from hpcscientist.importers.draft import slug
from hpcscientist.importers.request import ImportRequest
from hpcscientist.importers.source import open_source
from hpcscientist.recipe import create, load
from hpcscientist.recipe.checks import check as checking
from hpcscientist.records.trial import Budget, Direction, IdeaFailed, Scored
from hpcscientist.records.writing import REPLIES

if TYPE_CHECKING:
    from hpcscientist.launching.rehearsal import Rehearsal

# What only one command needs is imported there: a campaign's modules take a second.


@click.group(no_args_is_help=False)
def recipe() -> None:
    """List, make and check recipes."""


@recipe.command("list")
def list_() -> None:
    """List the recipes in this folder and the shipped ones."""
    for path in load.available():
        spec = load.load(path).spec
        click.echo(printable(f"{spec.name:16} {spec.topic.title}  [{path}]"))


@recipe.command()
@click.argument("name")
@click.option("--into", type=click.Path(path_type=Path), default=Path("recipes"), show_default=True)
def new(name: str, into: Path) -> None:
    """Create a small, complete recipe NAME that runs, as a starting point."""
    path = create.create(name, into)
    click.echo(f"{path}", err=False)
    click.echo(f"try it: hpcsci launch --recipe {path} --model search --ideas 6", err=True)


@recipe.command()
@click.argument("name")
@click.option("--run", is_flag=True, help="Also prepare the data and run the reference.")
@click.option("--full", is_flag=True, help="With --run: at the full budget, too.")
@click.option("--setup", metavar="NAME", help="With --run: use this setup of the recipe.")
@click.option("--data", metavar="FOLDER", help="With --run: data files for the recipe.")
def check(name: str, run: bool, full: bool, **options: str | None) -> None:
    """Check the recipe NAME (a name or a folder); print file and line of each problem."""
    if not run and (full or any(options.values())):
        raise UsageError("--full, --setup and --data need --run; add it, or leave them out")
    from hpcscientist.campaign import stages  # noqa: PLC0415

    path = load.find(name)
    problems = checking.check(path, stages.replies(), REPLIES)
    for problem in problems:
        click.echo(printable(str(problem)), err=True)
    if problems:
        many = "s" if len(problems) > 1 else ""
        raise RecipeError(f"{path}: {len(problems)} problem{many}; fix the lines above")
    if run:
        from hpcscientist.launching.launch import settle  # noqa: PLC0415
        from hpcscientist.launching.rehearsal import rehearse  # noqa: PLC0415

        settings = settle(settings_from(**options), Path.cwd())
        with tempfile.TemporaryDirectory(prefix="hpcsci-check-") as room:
            copy = Path(room) / path.name
            load.copy(path, copy, settings.setup)
            for rehearsal in rehearse(load.load(copy), settings, full=full):
                _tell(path, rehearsal)
    click.echo(f"{path}: ok")


def _described() -> str:
    """Return the list of import formats for the help text, without loading other packages."""
    return "\n".join(f"  {each.name:16} {each.says}" for each in registry.OURS)


@recipe.command(
    "import",
    help=f"""Write a recipe from the task SOURCE, which is in another tool's FORMAT.

SOURCE is a file, a folder or a zip archive. Without --run-source no code from it is run: read in
the recipe what trials and the data preparation will run. For each part of the task the command
prints what it does with it: maps, adapted, lost, warning (read it before you trust numbers), or
refused.

\b
FORMAT is one of
{_described()}

Metrics that the task's own code computes are self-reported: they are marked as such wherever they
are shown, and they are never confirmed and never a claim. With --scorer FILE, a score.py as
described in recipes/README.md, the file --predictions is scored against labels in --data FOLDER
(public/train, public/validation, public/test, private/validation, private/test).

\b
hpcsci recipe import script train.py --check
hpcsci recipe import script train.py --metric "val accuracy" --data input --out recipes/mine
hpcsci recipe check recipes/mine --run --data input""",
)
@click.argument("format_name", metavar="FORMAT")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--out", metavar="DIR", help="A new folder for the recipe [recipes/NAME].")
@click.option(
    "--check", "only_check", is_flag=True, help="Print what maps and what does not; write nothing."
)
@click.option("--metric", metavar="NAME", help="The metric that decides, as the task calls it.")
@click.option(
    "--direction", type=click.Choice([d.value for d in Direction]), help="Is more or less better?"
)
@click.option(
    "--scorer", metavar="FILE", type=click.Path(path_type=Path), help="Your own score.py."
)
@click.option(
    "--predictions", metavar="NAME", help="The file to score, as the task's code names it."
)
@click.option(
    "--data", metavar="FOLDER", type=click.Path(path_type=Path), help="Files that the task reads."
)
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), help="Time of a trial at full budget."
)
@click.option(
    "--self-reported", is_flag=True, help="Keep the task's own metrics even if a scorer is shipped."
)
@click.option(
    "--run-source", is_flag=True, help="Run the task's preparation, and search its data for labels."
)
@click.option("--recipe", metavar="NAME", help="scientist-bench: the recipe to build on.")
@click.option(
    "--level", type=click.IntRange(1, 2), default=1, help="scientist-bench: level of instruction."
)
def import_(
    format_name: str,
    source: Path,
    out: str | None,
    only_check: bool,
    direction: str | None,
    **asked: Any,
) -> None:
    """Import a recipe; the decorator holds the help text."""
    kind = registry.format_of(format_name)
    for option in ("data", "scorer"):  # other processes read them, from other working directories
        if asked[option] is not None:
            asked[option] = expanded(str(asked[option])).absolute()
    request = ImportRequest(
        open_source(expanded(str(source))),
        direction=Direction(direction) if direction else None,
        **asked,
    )
    target = Path("recipes", slug(request.source.stem)) if out is None else expanded(out)
    draft = registry.draft_of(kind, request, target)
    registry.search_labels(draft, request)
    for line in draft.lines:
        click.echo(str(line), err=not only_check)
    draft.require()
    if only_check:
        return
    draft.write(target)
    click.echo(printable(str(target)))
    for command in draft.commands:
        click.echo(f"next: {printable(command.format(recipe=target))}", err=True)


def _tell(path: Path, rehearsal: Rehearsal) -> None:
    """Print the reference's metrics at a budget. Raises RecipeError if the reference failed."""
    from hpcscientist.conduct.reference import fix_of  # noqa: PLC0415

    outcome = rehearsal.report.outcome
    if not isinstance(outcome, Scored):
        click.echo("\n".join(map(printable, rehearsal.log.split("\n"))), err=True)
        where = "" if rehearsal.budget == Budget.PILOT else f" at budget {rehearsal.budget}"
        fix = f"; {fix_of(outcome)} and try again" if isinstance(outcome, IdeaFailed) else ""
        raise RecipeError(
            f"{path}: the reference code fails{where} ({outcome.failure.value}): {outcome.detail}"
            f"{fix}"
        )
    for metric, value in outcome.metrics.items():
        click.echo(f"reference at {rehearsal.budget} budget: {metric} {value:.6g}", err=True)
