"""Recipes in which something is odd: checked, launched dry, and launched."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st
from odd_campaigns import HERE, campaign
from odd_changes import NAME, Change, changes
from try_out import ground, tried

from hpcscientist.recipe.checks.check import check
from hpcscientist.recipe.create import create

RECIPE = f"./{NAME}"
RECIPES = st.lists(changes(), min_size=1, max_size=3).map(tuple)


def try_recipe(changed: tuple[Change, ...], *, launched: bool) -> None:
    """What `check` passes can be launched, and what it refuses cannot."""
    with ground() as folder:
        made = create(NAME, folder)
        for change in changed:
            change.make(made)
        verdict = tried(["recipe", "check", RECIPE])
        tried(["recipe", "list"])
        codes = {model: _dry(model) for model in ("search", "playbook")}
        if verdict == 0:
            assert set(codes.values()) <= {0, 2}
        elif not _is_about_replies(made):
            assert set(codes.values()) == {2}, "launch takes what check refuses"
        for model, code in codes.items():
            if code == 0 and launched:
                campaign(folder, model, whole=False, recipe=RECIPE)
                return


def _dry(model: str) -> int:
    given = ("--recipe", RECIPE, "--model", model, *HERE)
    return tried(["launch", *given, "--dry-run", "--run-dir", "run"])


def _is_about_replies(made: Path) -> bool:
    """Whether the only problem is what some recorded replies say.

    A search reads none, and a campaign that does ends the idea whose reply is unusable.
    """
    return all(
        problem.file.name == "playbook.jsonl" and problem.line is not None
        for problem in check(made)
    )
