"""Writes a small, complete recipe that runs, as a starting point for people."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from hpcscientist.errors import RecipeError

# Creates a recipe's folder completely or not at all.


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder for a recipe, and rename it to `target` when the body has succeeded.

    Raises RecipeError if `target` exists or cannot be written. Then, and if the body raises, it
    leaves nothing behind.
    """
    if target.exists() or target.is_symlink():
        raise RecipeError(f"{target} exists already; choose another name or remove it")
    folder = target.parent
    made_folders = [p for p in (folder, *folder.parents) if not p.exists()]
    staging = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=folder))
        yield staging
        staging.chmod(0o755)
        staging.rename(target)
    except BaseException as error:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
        for made in made_folders:
            if made.is_dir() and not any(made.iterdir()):
                made.rmdir()
        if isinstance(error, OSError):
            raise RecipeError(
                f"{target} cannot be written: {error.strerror}; choose another folder"
            ) from error
        raise


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
