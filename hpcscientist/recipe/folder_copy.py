"""A trusted copy of a folder, by the hash of its content: all campaigns with that share one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.files.atomic import write_atomic, write_json
from hpcscientist.files.handed import open_regular, read_regular
from hpcscientist.files.hashing import hash_file, hash_files, hash_named, tree_files
from hpcscientist.recipe import staging

_FILES, _HASHES = "files", "hashes.json"


@dataclass(frozen=True, slots=True)
class FolderCopy:
    """The copy of `shown`, in `place`; `known` is how the hash of its content begins.

    No folder of more than `most` bytes is copied or read. The copy may lack `may_lack` of its
    files.
    """

    shown: Path
    place: Path
    known: str
    most: int
    may_lack: int = 0

    @property
    def files(self) -> Path:
        """The copied files."""
        return self.place / _FILES

    def keep(self, left_out: Collection[str] = ()) -> None:
        """Copy the folder if it is the known one, but for some files, unless there is a copy.

        Raises OSError.
        """
        if self.kept() or not self.is_shown_whole():
            return
        self.place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        staging.clear(self.place.parent)
        made = staging.make(self.place)
        try:
            hashes = hash_files(self.shown)
            _copy(self.shown, made / _FILES, hashes.keys() - set(left_out))
            write_json(made / _HASHES, hashes)
            shutil.rmtree(self.place, ignore_errors=True)  # half of one, after a power cut
            made.rename(self.place)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise

    def kept(self) -> dict[str, str]:
        """Return the files of the copy with their hashes; {} where it is not whole. Reads all."""
        known, found = self._hashes(), hash_files(self.files)
        whole = found.items() <= known.items() and len(known) - len(found) <= self.may_lack
        return found if whole else {}

    def is_shown_whole(self) -> bool:
        """Whether the folder itself is the known one. Reads all of it, unless it is too large."""
        try:
            size = sum(path.stat().st_size for path in tree_files(self.shown))
            return size <= self.most and hash_named(hash_files(self.shown)).startswith(self.known)
        except OSError:
            return False

    def changed(self) -> list[str]:
        """Return the files of the folder that are not the copy's, by name; none without a copy.

        What was left out of the copy is not looked at.
        """
        ours = self.kept()
        if not ours or self.is_shown_whole():
            return []
        theirs: dict[str, str] = {}
        for path in tree_files(self.shown):
            name = path.relative_to(self.shown).as_posix()
            # A file of another size is another file, and may be endless.
            alike = name in ours and path.stat().st_size == (self.files / name).stat().st_size
            theirs[name] = ""
            with contextlib.suppress(OSError):  # it may not be read any more
                theirs[name] = hash_file(path) if alike else ""
        names = {*ours, *theirs} - (self._hashes().keys() - ours.keys())
        return sorted(name for name in names if ours.get(name) != theirs.get(name))

    def restore(self, names: Iterable[str]) -> None:
        """Have files of the folder be the copy's again, or gone where it has none.

        Each is replaced as a whole: others may read the folder meanwhile. Raises OSError.
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
        """All files of the known folder; {} where no copy tells."""
        with contextlib.suppress(OSError, ValueError):
            hashes: dict[str, str] = json.loads(read_regular(self.place / _HASHES))
            if hash_named(hashes).startswith(self.known):
                return hashes
        return {}


def _make_way(root: Path, path: Path) -> None:
    """Have nothing keep a file from being written that candidates put or changed there."""
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
