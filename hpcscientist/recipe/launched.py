"""The recipe and data with which a campaign was launched, read from trusted copies.

No path given to candidates leads to the copies. A recipe's copy omits its container image, which
may be large and is never read from there. Small data are copied for campaigns without a sandbox:
all of their candidates read one folder, and each of them can change it. Labels are in the same
place as the copies, and need none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.trusted import copy_of
from hpcscientist.recipe.checks.document import read_document
from hpcscientist.recipe.checks.files import RECIPE_FILE
from hpcscientist.recipe.checks.tree import LARGEST
from hpcscientist.recipe.folder_copy import FolderCopy
from hpcscientist.recipe.load import Recipe, load

LARGEST_DATA = 64 * 2**20  # bytes: the copies may lie in a home folder


@dataclass(frozen=True, slots=True)
class LaunchedRecipe:
    """A recipe by its hash. `shown`, the run directory's recipe, counts if there is no copy."""

    shown: Path
    recipe_hash: str

    @property
    def copy(self) -> FolderCopy:
        """The trusted copy, which may not exist."""
        return FolderCopy(
            self.shown, copy_of("recipes", self.recipe_hash), self.recipe_hash, LARGEST, may_lack=1
        )

    def keep(self) -> None:
        """Copy the run directory's recipe, if it has the launch's hash and no copy yet.

        Raises OSError.
        """
        spec = read_document(self.shown / RECIPE_FILE)
        image = "" if isinstance(spec, list) else spec.image or ""
        self.copy.keep(left_out=[PurePosixPath(image).as_posix()])

    def load(self) -> Recipe:
        """Return the recipe. Raises RunDirectoryError if it differs from the launched one."""
        if self.copy.kept():
            return load(self.copy.files)
        if self.copy.is_shown_whole():
            return load(self.shown)
        raise RunDirectoryError(
            f"{self.shown}: was changed since launch; restore it, or launch a new campaign"
        )


def data_copy(view: Path, data_hash: str) -> FolderCopy:
    """Return the trusted copy of prepared data, which may not exist; `view` is any split's."""
    known = data_hash.partition("-")[0]  # the rest are hashes of labels
    return FolderCopy(view.parent, copy_of("data", known), known, LARGEST_DATA)
