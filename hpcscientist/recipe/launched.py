"""The recipe that a campaign was launched with, read from a copy that candidates are not led to.

The copy lies in `files.trusted`, by the recipe's hash, with a list of all files' hashes. It lacks
the recipe's container image, which may be large and is never read from there. Where there is no
copy, the run directory's recipe counts as long as it has that hash.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files import trusted
from hpcscientist.files.atomic import write_json
from hpcscientist.files.handed.regular import open_regular, read_regular
from hpcscientist.files.hashing import hash_file, hash_files, hash_named, holds, tree_files
from hpcscientist.recipe import staging
from hpcscientist.recipe.checks.document import read_document
from hpcscientist.recipe.checks.files import RECIPE_FILE
from hpcscientist.recipe.checks.tree import LARGEST
from hpcscientist.recipe.load import Recipe, load

_FILES, _HASHES = "recipe", "hashes.json"


@dataclass(frozen=True, slots=True)
class LaunchedRecipe:
    """A recipe by its hash. `shown` is the run directory's."""

    shown: Path
    recipe_hash: str

    def keep(self) -> None:
        """Copy the run directory's recipe, if it is that of the launch, unless there is a copy.

        Raises OSError.
        """
        if self._kept() or not holds(self.shown, self.recipe_hash, LARGEST):
            return
        spec = read_document(self.shown / RECIPE_FILE)
        image = "" if isinstance(spec, list) else spec.image or ""
        target = self._place
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        staging.clear(target.parent)
        made = staging.make(target)
        try:
            hashes = hash_files(self.shown)
            _copy(self.shown, made / _FILES, hashes.keys() - {PurePosixPath(image).as_posix()})
            write_json(made / _HASHES, hashes)
            shutil.rmtree(target, ignore_errors=True)  # half of one, after a power cut
            made.rename(target)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise

    def load(self) -> Recipe:
        """Return the recipe. Raises RunDirectoryError where it is not there as it was launched."""
        if self._kept():
            return load(self._place / _FILES)
        if holds(self.shown, self.recipe_hash, LARGEST):
            return load(self.shown)
        raise RunDirectoryError(
            f"{self.shown}: was changed since launch; restore it, or launch a new campaign"
        )

    def changed(self) -> list[str]:
        """Return the files of the run directory's recipe that are not the copy's, by name.

        None where there is no copy. Images are not looked at.
        """
        ours = self._kept()
        if not ours or holds(self.shown, self.recipe_hash, LARGEST):
            return []
        theirs: dict[str, str] = {}
        for path in tree_files(self.shown):
            name = path.relative_to(self.shown).as_posix()
            # A file of another size is another file, and may be endless.
            alike = name in ours and path.stat().st_size == _size(self._place / _FILES / name)
            theirs[name] = hash_file(path) if alike else ""
        image = self._hashes().keys() - ours.keys()
        names = {*ours, *theirs} - image
        return sorted(name for name in names if ours.get(name) != theirs.get(name))

    def restore(self) -> None:
        """Write the copy into the run directory, where nothing is in its way. Raises OSError."""
        _copy(self._place / _FILES, self.shown, self._kept())

    @property
    def _place(self) -> Path:
        return trusted.recipe_folder(self.recipe_hash)

    def _hashes(self) -> dict[str, str]:
        """All files of the launched recipe; {} where no copy tells."""
        with contextlib.suppress(OSError, ValueError):
            hashes: dict[str, str] = json.loads(read_regular(self._place / _HASHES))
            if hash_named(hashes) == self.recipe_hash:
                return hashes
        return {}

    def _kept(self) -> dict[str, str]:
        """The files of the copy with their hashes; {} where it is not whole. Reads all of it."""
        known, found = self._hashes(), hash_files(self._place / _FILES)
        whole = found.items() <= known.items() and len(known) - len(found) <= 1  # but for an image
        return found if whole else {}


def _copy(source: Path, target: Path, names: Iterable[str]) -> None:
    for name in names:
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_regular(source / name, follow=False) as file, path.open("wb") as copy:
            shutil.copyfileobj(file, copy)


def _size(path: Path) -> int:
    return path.stat().st_size
