"""Creates a recipe's folder completely or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcscientist.errors import RecipeError


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
