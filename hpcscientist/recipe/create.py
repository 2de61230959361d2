"""Writes a small, complete recipe that runs, as a starting point for people."""

from __future__ import annotations

import os
import re
import shlex
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from hpcscientist.errors import RecipeError
from hpcscientist.recipe.new_folder import new_folder

NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_SUFFIX = ".tmpl"


def create(name: str, folder: Path) -> Path:
    """Write the recipe `name` to `folder`/`name` and return that path.

    Raises RecipeError for a bad name, an existing target, or a folder that cannot be
    written, and then leaves nothing behind.
    """
    if not NAME.fullmatch(name):
        raise RecipeError(
            f"{name!r} cannot name a recipe; use a lower-case letter, then at most 63 letters, "
            "digits, '-' or '_'"
        )
    target = folder / name
    with new_folder(target) as staging:
        _write(resources.files("hpcscientist.recipe") / "template", staging, target)
    return target


def _write(template: Traversable, target: Path, recipe: Path) -> None:
    for item in template.iterdir():
        if item.is_dir():
            (target / item.name).mkdir()
            _write(item, target / item.name, recipe)
        elif item.name.endswith(_SUFFIX):
            text = item.read_text(encoding="utf-8").replace("@NAME@", recipe.name)
            text = text.replace("@PATH@", _as_word(recipe))
            (target / item.name.removesuffix(_SUFFIX)).write_text(text, encoding="utf-8")


def _as_word(path: Path) -> str:
    """Return a quoted path that `hpcsci` reads as a folder, not as a recipe's name or an option."""
    return shlex.quote(str(path) if os.sep in str(path) else f".{os.sep}{path}")
