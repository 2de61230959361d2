"""Bases a recipe on an existing one: its reference, data and scorer."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.files.handed import parse as parse_toml
from hpcscientist.importers.draft import Draft
from hpcscientist.importers.source import open_source
from hpcscientist.recipe.checks.files import RECIPE_FILE


def take(draft: Draft, recipe: Path) -> None:
    """Copy everything of a recipe except its name. Raises RecipeError."""
    given = open_source(recipe)
    for name in given.sizes:
        if name != RECIPE_FILE:
            draft.put(name, given.data(name))
    draft.document |= parse_toml(given.text(RECIPE_FILE))
    del draft.document["name"]
    draft.withholds = False  # the base recipe's author has searched for label leaks
