"""`hpcsci recipe list|new|check`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from hpcscientist.campaign import stages
from hpcscientist.cli.shared.options import settings_from
from hpcscientist.errors import RecipeError, UsageError
from hpcscientist.files.text import printable
from hpcscientist.launching.launch import settle
from hpcscientist.launching.rehearsal import Rehearsal, rehearse
from hpcscientist.recipe import create, load
from hpcscientist.recipe.checks import check as checking
from hpcscientist.records.trial import Budget, Scored
from hpcscientist.records.writing import REPLIES


@click.group(no_args_is_help=False)
def recipe() -> None:
    """List, make and check recipes."""


@recipe.command("list")
def list_() -> None:
    """List the recipes of this folder and those shipped."""
    for path in load.available():
        spec = load.load(path).spec
        click.echo(printable(f"{spec.name:16} {spec.topic.title}  [{path}]"))


@recipe.command()
@click.argument("name")
@click.option("--into", type=click.Path(path_type=Path), default=Path("recipes"), show_default=True)
def new(name: str, into: Path) -> None:
    """Write a small complete recipe NAME that runs, to start from."""
    path = create.create(name, into)
    click.echo(f"{path}", err=False)
    click.echo(f"try it: hpcsci launch --recipe {path} --model search --ideas 6", err=True)


@recipe.command()
@click.argument("name")
@click.option("--run", is_flag=True, help="Also prepare the data and run the reference.")
@click.option("--full", is_flag=True, help="With --run: at the full budget, too.")
@click.option("--setup", metavar="NAME", help="With --run: as this setup of the recipe has it.")
@click.option("--data", metavar="FOLDER", help="With --run: files that the recipe wants.")
def check(name: str, run: bool, full: bool, **options: str | None) -> None:
    """Check the recipe NAME (a name or a folder); name file and line of what is wrong."""
    if not run and (full or any(options.values())):
        raise UsageError("--full, --setup and --data go with --run; add it, or leave them out")
    path = load.find(name)
    problems = checking.check(path, stages.replies(), REPLIES)
    for problem in problems:
        click.echo(printable(str(problem)), err=True)
    if problems:
        many = "s" if len(problems) > 1 else ""
        raise RecipeError(f"{path}: {len(problems)} problem{many}; mend the lines above")
    if run:
        settings = settle(settings_from(**options), Path.cwd())
        with tempfile.TemporaryDirectory(prefix="hpcsci-check-") as room:
            copy = Path(room) / path.name
            load.copy(path, copy, settings.setup)
            for rehearsal in rehearse(load.load(copy), settings, full=full):
                _tell(path, rehearsal)
    click.echo(f"{path}: ok")


def _tell(path: Path, rehearsal: Rehearsal) -> None:
    """Say what the reference gave at a budget. Raises RecipeError where it failed."""
    outcome = rehearsal.report.outcome
    if not isinstance(outcome, Scored):
        click.echo("\n".join(map(printable, rehearsal.log.split("\n"))), err=True)
        where = "" if rehearsal.budget == Budget.PILOT else f" at budget {rehearsal.budget}"
        raise RecipeError(
            f"{path}: the reference code fails{where} ({outcome.failure.value}): {outcome.detail}"
        )
    for metric, value in outcome.metrics.items():
        click.echo(f"reference at {rehearsal.budget} budget: {metric} {value:.6g}", err=True)
