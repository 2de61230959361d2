"""A trusted copy of a folder, by its content's hash: campaigns with equal content share it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.atomic import write_atomic, write_json
from hpcscientist.files.handed import open_regular, read_regular
from hpcscientist.files.hashing import hash_file, hash_files, hash_named, tree_files
from hpcscientist.files.lock import started_at
from hpcscientist.files.trusted import copy_of
from hpcscientist.recipe.checks.document import read_document
from hpcscientist.recipe.checks.files import RECIPE_FILE
from hpcscientist.recipe.checks.tree import LARGEST
from hpcscientist.recipe.load import Recipe, load

# Temporary folders for preparing data: beside their destination, named after host and process.
#
# A killed process leaves its folders behind. The next process that prepares data, or resumes or
# cancels a campaign, removes those whose owner is dead.


def make_staging(target: Path) -> Path:
    """Make an empty folder beside the future folder `target`. Raises OSError."""
    prefix = f".{target.name}.{_here()}.{os.getpid()}.{started_at(os.getpid())}."
    return Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))


def clear_staging(*roots: Path) -> None:
    """Remove the temporary folders in these folders whose process on this host is dead.

    A folder that cannot be read is skipped: code that needs it will report the error.
    """
    for root in roots:
        with contextlib.suppress(OSError):
            _clear(root)


def _clear(root: Path) -> None:
    for folder in root.glob(f".*.{_here()}.*"):
        pid, _, rest = folder.name.rpartition(f".{_here()}.")[2].partition(".")
        with contextlib.suppress(ValueError):
            if str(started_at(int(pid))) != rest.partition(".")[0]:
                shutil.rmtree(folder, ignore_errors=True)


def _here() -> str:
    """Return the host and its process namespace: containers of one host name may share a folder."""
    return f"{socket.gethostname()}-{Path('/proc/self/ns/pid').stat().st_ino}"


_FILES, _HASHES = "files", "hashes.json"


@dataclass(frozen=True, slots=True)
class FolderCopy:
    """The copy of `shown`, in `place`; the hash of its content begins with `known`.

    Folders of more than `most` bytes are neither copied nor read. The copy may lack the file
    `may_lack`, and no other; "" for none.
    """

    shown: Path
    place: Path
    known: str
    most: int
    may_lack: str = ""

    @property
    def files(self) -> Path:
        """The copied files."""
        return self.place / _FILES

    def keep(self, left_out: Collection[str] = ()) -> None:
        """Copy the folder without the files `left_out`, if it has the known hash and no copy yet.

        Raises OSError.
        """
        if self.kept() or not self.is_shown_whole():
            return
        self.place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        clear_staging(self.place.parent)
        made = make_staging(self.place)
        try:
            hashes = hash_files(self.shown)
            _copy(self.shown, made / _FILES, hashes.keys() - set(left_out))
            write_json(made / _HASHES, hashes)
            shutil.rmtree(self.place, ignore_errors=True)  # an incomplete one, after a power cut
            made.rename(self.place)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise

    def kept(self) -> dict[str, str]:
        """Return the copy's files with their hashes; {} if it is incomplete. Reads all of it."""
        known, found = self._hashes(), hash_files(self.files)
        whole = found.items() <= known.items() and known.keys() - found.keys() <= {self.may_lack}
        return found if whole else {}

    def is_shown_whole(self) -> bool:
        """Return whether the folder has the known hash. Reads all of it, unless it is too large."""
        try:
            size = sum(path.stat().st_size for path in tree_files(self.shown))
            return size <= self.most and hash_named(hash_files(self.shown)).startswith(self.known)
        except OSError:
            return False

    def changed(self) -> list[str]:
        """Return the names of files that differ between the folder and its copy; [] without a copy.

        Files that were left out of the copy are not compared.
        """
        ours = self.kept()
        if not ours or self.is_shown_whole():
            return []
        theirs: dict[str, str] = {}
        for path in tree_files(self.shown):
            name = path.relative_to(self.shown).as_posix()
            # A file of another size differs; do not read it, since it may be endless.
            alike = name in ours and path.stat().st_size == (self.files / name).stat().st_size
            theirs[name] = ""
            with contextlib.suppress(OSError):  # it may be unreadable now
                theirs[name] = hash_file(path) if alike else ""
        names = {*ours, *theirs} - (self._hashes().keys() - ours.keys())
        return sorted(name for name in names if ours.get(name) != theirs.get(name))

    def restore(self, names: Iterable[str]) -> None:
        """Restore files of the folder from the copy; remove those that the copy does not have.

        Each file is replaced atomically, as others may read the folder meanwhile. Raises OSError.
        """
        kept = self.kept()
        for name in names:
            source, path = self.files / name, self.shown / name
            _make_way(self.shown, path)
            if name in kept:
                content, mode = read_regular(source, self.most), source.stat().st_mode & 0o777
                write_atomic(path, content, mode, durable=False)
            else:
                path.unlink(missing_ok=True)

    def _hashes(self) -> dict[str, str]:
        """Return the hashes of all files of the known folder; {} without a valid copy."""
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
            hashes: dict[str, str] = json.loads(read_regular(self.place / _HASHES))
            if hash_named(hashes).startswith(self.known):
                return hashes
        return {}


def _make_way(root: Path, path: Path) -> None:
    """Remove or repair whatever a candidate left at or above `path` that prevents a write."""
    inner = (folder for folder in reversed(path.parents) if folder.is_relative_to(root))
    for folder in inner:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            folder.unlink()
        folder.mkdir(exist_ok=True)
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            folder.chmod(0o755)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)


def _copy(source: Path, target: Path, names: Iterable[str]) -> None:
    for name in names:
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_regular(source / name, follow=False) as file, path.open("wb") as copy:
            shutil.copyfileobj(file, copy)
            path.chmod(os.fstat(file.fileno()).st_mode & 0o777)


# The recipe and data with which a campaign was launched, read from trusted copies.
#
# No path given to candidates leads to the copies. A recipe's copy omits its container image,
# which may be large and is never read from there. Small data are copied for campaigns without a
# sandbox: all of their candidates read one folder, and each of them can change it. Labels are
# in the same place as the copies, and need none.


LARGEST_DATA = 64 * 2**20  # bytes: the copies may lie in a home folder


@dataclass(frozen=True, slots=True)
class LaunchedRecipe:
    """A recipe by its hash. `shown`, the run directory's recipe, counts if there is no copy."""

    shown: Path
    recipe_hash: str

    @property
    def copy(self) -> FolderCopy:
        """The trusted copy, which may not exist."""
        place = copy_of("recipes", self.recipe_hash)
        return FolderCopy(self.shown, place, self.recipe_hash, LARGEST, _image(place / _FILES))

    def keep(self) -> None:
        """Copy the run directory's recipe, if it has the launch's hash and no copy yet.

        Raises OSError.
        """
        self.copy.keep(left_out=[_image(self.shown)])

    def load(self) -> Recipe:
        """Return the recipe. Raises RunDirectoryError if it differs from the launched one."""
        if self.copy.kept():
            return load(self.copy.files)
        if self.copy.is_shown_whole():
            return load(self.shown)
        raise RunDirectoryError(
            f"{self.shown}: was changed since launch; restore it, or launch a new campaign"
        )


def _image(recipe: Path) -> str:
    """Return the name of a recipe's container image in its folder, "." for none."""
    spec = read_document(recipe / RECIPE_FILE)
    return PurePosixPath("" if isinstance(spec, list) else spec.image or "").as_posix()


def data_copy(view: Path, data_hash: str) -> FolderCopy:
    """Return the trusted copy of prepared data, which may not exist; `view` is any split's."""
    known = data_hash.partition("-")[0]  # the rest are hashes of labels
    return FolderCopy(view.parent, copy_of("data", known), known, LARGEST_DATA)
