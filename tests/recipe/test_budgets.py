"""Budgets of a recipe: the pilot's, steps between, the full one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from hpcscientist.campaign.specs import trial_limits
from hpcscientist.models.prompting.prompts import render
from hpcscientist.recipe.checks.check import check
from hpcscientist.recipe.create import create
from hpcscientist.recipe.load import load
from hpcscientist.recipe.schema import Budgets, BudgetSpec, StepSpec
from hpcscientist.records.trial import Budget


def with_steps(folder: Path, *lines: str) -> tuple[Path, int]:
    """A recipe with lines before its full budget, and the number of the first of them."""
    path = create("stepped", folder) / "recipe.toml"
    before, after = path.read_text().split("[budgets.full]")
    path.write_text("\n".join([before.rstrip("\n"), "", *lines, "[budgets.full]"]) + after)
    return path.parent, before.count("\n") + 1


def a_step(name: str, seconds: float) -> tuple[str, str, str]:
    return "[[budgets.steps]]", f'name = "{name}"', f"seconds = {seconds}"


def test_without_steps_there_are_two_budgets_and_they_need_not_grow() -> None:
    budgets = Budgets(pilot=BudgetSpec(seconds=20), full=BudgetSpec(seconds=20))
    assert budgets.names == ("pilot", "full")


def test_each_budget_has_its_limits(tmp_path: Path) -> None:
    folder, _ = with_steps(tmp_path, *a_step("third", 7), *a_step("half", 10.5))
    spec = load(folder).spec
    assert spec.budgets.names == ("pilot", "third", "half", "full")
    limits = {name: trial_limits(spec, name).deadline_s for name in spec.budgets.names}
    assert limits == {"pilot": 5, "third": 7, "half": 10.5, "full": 20}
    assert trial_limits(spec, Budget.FULL).deadline_s == 20
    with pytest.raises(KeyError):
        trial_limits(spec, "quarter")


def test_the_scorer_has_its_own_limits(tmp_path: Path) -> None:
    folder = create("scored", tmp_path)
    usual = trial_limits(load(folder).spec, Budget.FULL)
    assert (usual.scorer_s, usual.scorer_mb) == (120, 4096)
    with (folder / "recipe.toml").open("a") as file:
        file.write("\n[scorer]\nseconds = 600\nmemory_mb = 9000\n")
    for name in ("pilot", "full"):
        given = trial_limits(load(folder).spec, name)
        assert (given.scorer_s, given.scorer_mb) == (600, 9000)


@pytest.mark.parametrize(
    "line", ["seconds = 0", "seconds = 604801", "memory_mb = 63", "memory_mb = 134217729"]
)
def test_limits_of_the_scorer_are_refused_that_make_no_sense(tmp_path: Path, line: str) -> None:
    folder = create("scored", tmp_path)
    before = (folder / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(f"{before}\n[scorer]\n{line}\n")
    (found,) = check(folder)
    assert found.file.name == "recipe.toml"
    assert found.line == before.count("\n") + 3
    assert line.split(maxsplit=1)[0] in found.message


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        (a_step("half", 5), 2, "pilot budget's 5"),
        (a_step("half", 20), 2, "full budget's 20"),
        (a_step("half", -1), 2, "greater than 0"),
        ((*a_step("a", 9), *a_step("b", 9)), 5, " a budget's 9"),
        ((*a_step("a", 9), *a_step("a", 10)), 4, "'a' is named"),
        (a_step("pilot", 9), 1, "'pilot' is named"),
        (a_step("full", 9), 1, "'full'"),
        (a_step("Half", 9), 1, "pattern"),
        (a_step("h" * 33, 9), 1, "at most 32 characters"),
        (("[[budgets.steps]]", "seconds = 9"), 0, "'budgets.steps[0].name' is missing"),
        (("[[budgets.steps]]", 'name = "a"', "second = 9"), 2, "mean 'seconds'"),
        (("[budgets.steps]", "half = 9"), 0, "valid array"),
        (("[[budgets.step]]", 'name = "a"'), 0, "mean 'steps'"),
    ],
)
def test_each_fault_has_its_line(
    lines: tuple[str, ...], line: int, message: str, tmp_path: Path
) -> None:
    folder, first = with_steps(tmp_path, *lines)
    found = [problem for problem in check(folder) if message in problem.message]
    assert found, check(folder)
    assert (found[0].file.name, found[0].line) == ("recipe.toml", first + line)


def test_what_is_no_recipe_file_is_refused_too() -> None:
    step = StepSpec(name="half", seconds=30)
    with pytest.raises(ValidationError, match="full budget's 20"):
        Budgets(pilot=BudgetSpec(seconds=5), steps=(step,), full=BudgetSpec(seconds=20))


def test_an_author_is_told_of_every_budget() -> None:
    texts = {"entry": "experiment.py", "predictions": "predictions.csv"}
    plain = render("contract", **texts, steps=[])
    assert plain == render("contract", **texts)
    assert "--budget pilot|full --split" in plain
    assert " Both " in plain
    told = render("contract", **texts, steps=["third", "half"])
    assert "--budget pilot|third|half|full --split" in told
    assert "`third`, `half`. All " in told
