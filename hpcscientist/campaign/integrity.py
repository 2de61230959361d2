"""Detects and undoes changes that candidate code makes to the run directory.

A candidate without a sandbox can change the recipe there, other ideas' code or campaign.toml. The
driver copies every file that it writes there for good (see `files.trusted`), and compares it with
the copy right before each use and after each trial. A changed file is restored from the copy, and
the journal names the ideas whose trials ran meanwhile: one of them may have done it. No idea fails
for that, because the culprit is unknown and nothing was measured with the changed file.

The code that runs and scores trials belongs to a Python environment and may not be ours to restore.
If a candidate without a sandbox may have changed it, the driver stops before another result counts.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from hpcscientist.errors import RunDirectoryError
from hpcscientist.execution import folders, presence
from hpcscientist.files.atomic import write_atomic, write_text
from hpcscientist.files.handed import LARGEST_TEXT, read_regular, resolved
from hpcscientist.files.hashing import (
    OwnCode,
    change_mark,
    hash_bytes,
    hash_texts,
    holds,
    tree_files,
)
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.trusted import FILE, TrustedCopies, TrustedCopy
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.recipe.folder_copy import FolderCopy, LaunchedRecipe, data_copy
from hpcscientist.records.events import TamperingFound
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import Isolation, Split

_LOOKED_AT = 500  # entries compared after a trial; if there are more, only those of open ideas
_ENTRIES = 10_000  # no folder of ours has as many entries
_GONE = "gone"


@dataclass(slots=True)
class FileIntegrity:
    """Compares and restores files for one driver. Names are paths within the run directory.

    `exposed`: candidates have no sandbox and can reach the run directory.
    """

    paths: RunPaths
    journal: Journal
    state: CampaignState
    recipe: LaunchedRecipe
    exposed: bool
    data: FolderCopy | None  # a copy of the data that candidates can reach
    _copy: TrustedCopy
    _contents: TrustedCopies
    _marks: dict[str, object] = field(default_factory=dict)  # of entries last seen intact
    _ran: set[str] = field(default_factory=set)  # ideas whose trials ended since the last look
    _data_changes: int = 0
    _own_code: OwnCode = field(default_factory=OwnCode)

    @classmethod
    def of(
        cls, paths: RunPaths, journal: Journal, state: CampaignState, config: CampaignConfig
    ) -> FileIntegrity:
        """Return the integrity checks for a campaign's run directory."""
        copy = TrustedCopy.of(paths.root, config.campaign_id)
        recipe = LaunchedRecipe(paths.recipe, config.recipe_hash)
        exposed = config.isolation is Isolation.NONE
        view = Path(config.views[Split.VALIDATION])
        data = data_copy(view, config.data_hash) if exposed and config.data_hash else None
        return cls(paths, journal, state, recipe, exposed, data, copy, TrustedCopies(copy.contents))

    def begin(self) -> None:
        """Compare the files of earlier drivers; copy files that lack a copy and have their recorded
        hash. Raises OSError.
        """
        with contextlib.suppress(OSError):  # a full disk means no copies
            self.recipe.keep()
            if self.data and len(tree_files(self.data.shown)) <= _LOOKED_AT:
                self.data.keep()
        for idea in self.state.ideas.values():
            place = self.paths.idea(idea.idea_id)
            plan_hash = idea.planned.plan_hash if idea.planned else ""
            for path, known in ((place.idea, idea.idea_hash), (place.plan, plan_hash)):
                self._adopt(path, known)
            for number, known in idea.code_hashes.items():
                self._adopt(place.code(number), known)
        self._marks = dict.fromkeys(self._contents.names)
        if self.journal.was_restored:
            self._tell([self._name(self.paths.journal)])
        self.look()

    def keep(self, path: Path, text: str) -> None:
        """Keep a copy of a file that was just written."""
        self.keep_folder(path, {FILE: text})

    def keep_folder(self, path: Path, files: Mapping[str, str]) -> None:
        """Keep a copy of a folder that was just written; it must hold nothing else."""
        name = self._name(path)
        self._contents.put(name, files)
        self._marks[name] = None  # a candidate that runs may have changed it already

    def check(self, path: Path, *, recorded: bool = True) -> None:
        """Restore a file or folder that differs from its copy, before it is used. Raises OSError.

        `recorded` false: the journal does not mention this file. If it has no copy, it is removed,
        because a candidate may have planted it; the caller makes it again.
        """
        self._tell(self._compared([self._name(path)]))
        if not recorded and self._has_all_copies() and self._name(path) not in self._contents.names:
            folders.remove(path)

    def copied(self, path: Path, *, recorded: bool = True) -> dict[str, str] | None:
        """Check a file or folder, and return the texts of its copy; None without a copy.

        What is used comes from here and not from the run directory: a candidate that runs can
        change that again at any time. Raises OSError.
        """
        self.check(path, recorded=recorded)
        return self._contents.get(self._name(path))

    def read(self, path: Path, *, recorded: bool = True) -> bytes:
        """Check a file, and return its content: that of its copy, if there is one.

        Raises OSError; FileNotFoundError also for a file that the driver did not write.
        """
        files = self.copied(path, recorded=recorded)
        if files is not None:
            return files[FILE].encode()
        if not recorded and self._has_all_copies():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return read_regular(path, follow=False)

    def holds(self, code: Path, known: str) -> bool:
        """Check a folder of code; return whether its copy, or without one the folder, has a hash.

        A worker that finds other code in the folder runs that of the copy. Raises OSError.
        """
        files = self.copied(code)
        return holds(code, known, LARGEST_TEXT) if files is None else hash_texts(files) == known

    def _has_all_copies(self) -> bool:
        return self.exposed and self._contents.is_complete

    @contextlib.contextmanager
    def trial_of(self, idea_id: str) -> Iterator[None]:
        """Check everything that a trial may have changed, once it has ended. Raises OSError."""
        try:
            yield
        finally:
            self._ran.add(idea_id)
            self.look()
            self._ran.clear()

    def data_changes(self) -> int:
        """Restore prepared data that differ from the launch's; all candidates read these data.

        Returns how often they have differed so far. Raises OSError, and RunDirectoryError if the
        code that runs and scores trials has changed: then results of running trials are removed.
        """
        self._check_own_code()
        self._tell(self._data())
        return self._data_changes

    def _check_own_code(self) -> None:
        changed = self._own_code.changed() if self.exposed else []
        if not changed:
            return
        self._tell(changed)
        for trial_id in self.state.running:
            folders.remove(self.paths.trial(trial_id).result)
        raise RunDirectoryError(
            f"{changed[0]}: was changed while candidates ran that have no sandbox, and it has a "
            f"part in scoring; put it back, and see what {self.paths.root} says of tampering "
            "before you resume"
        )

    def look(self) -> None:
        """Compare everything that may be used again, if candidates can reach it. Raises OSError."""
        if not self.exposed:
            return
        names = list(self._contents.names)
        if len(names) > _LOOKED_AT:
            open_ideas = (self.paths.idea(idea_id).root for idea_id in self.state.progress.open)
            below = tuple(f"{self._name(folder)}/" for folder in open_ideas)
            names = [name for name in names if name.startswith(below)]
        changed = [*self._recipe(), *self._data(), *self._campaign()]
        changed += self._compared(names)
        if self.journal.restore():
            changed.append(self._name(self.paths.journal))
        self._tell(changed)

    def _adopt(self, path: Path, known: str) -> None:
        """Copy a file of an earlier version of the package, if its hash is the journal's."""
        if not known or self._name(path) in self._contents.names:
            return
        with contextlib.suppress(OSError, UnicodeDecodeError):
            files = _read(path)
            found = hash_bytes(files[FILE].encode()) if FILE in files else hash_texts(files)
            if found == known:
                self._contents.put(self._name(path), files)

    def _compared(self, names: Iterable[str]) -> Iterator[str]:
        """Restore entries that differ from their copies; yield their names."""
        for name in names:
            path = self.paths.root / name
            if name not in self._contents.names or self._marks.get(name) == (mark := _mark(path)):
                continue
            files = self._contents.get(name)
            if files is not None and not self._holds(path, files):
                folders.remove(make_way(self.paths, path))
                for file, text in files.items():
                    target = path / file if file else path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    write_text(target, text)
                mark = None  # compared again next time: it may have been changed once more
                yield name
            self._marks[name] = mark

    def _recipe(self) -> Iterator[str]:
        place, name = self.paths.recipe, self._name(self.paths.recipe)
        if self._marks.get(name) == (mark := _mark(place)):
            return
        changed = self.recipe.copy.changed()
        if changed:
            folders.remove(make_way(self.paths, place))
            self.recipe.copy.restore(self.recipe.copy.kept())
            yield from (f"{name}/{file}" for file in changed)
        self._marks[name] = None if changed else mark

    def _data(self) -> Iterator[str]:
        if self.data is None or not self.data.place.is_dir():
            return
        place, name = self.data.shown, str(self.data.shown)
        if self._marks.get(name) == (mark := _mark(place)):
            return
        changed = self.data.changed()
        if changed:
            self._data_changes += 1
            self.data.restore(changed)
            yield from (f"{name}/{file}" for file in changed)
        self._marks[name] = None if changed else mark

    def _campaign(self) -> Iterator[str]:
        place, name = self.paths.campaign, self._name(self.paths.campaign)
        if not self._copy.campaign.is_file() or self._marks.get(name) == (mark := _mark(place)):
            return
        known = read_regular(self._copy.campaign)
        if not _is_file_of(place, known):
            folders.remove(make_way(self.paths, place))
            write_atomic(place, known, mode=0o600)
            mark = None
            yield name
        self._marks[name] = mark

    def _holds(self, path: Path, files: Mapping[str, str]) -> bool:
        """Return whether the path holds exactly these files, and no link of a candidate is above
        it.
        """
        top, *inner = Path(self._name(path)).parts
        if resolved(path) != resolved(self.paths.root / top).joinpath(*inner):
            return False
        if FILE in files:
            return _is_file_of(path, files[FILE].encode())
        try:
            found = {file.relative_to(path).as_posix() for file in tree_files(path)}
        except OSError:
            return False
        return found == files.keys() and all(
            _is_file_of(path / name, text.encode()) for name, text in files.items()
        )

    def _tell(self, changed: Iterable[str]) -> None:
        names = tuple(changed)
        if not names:
            return
        suspects = (self._running() | self._ran) - {BASELINE_ID} if self.exposed else set()
        self.journal.record(
            TamperingFound(
                number=len(self.state.tampering) + 1,
                changed=names,
                suspects=tuple(sorted(suspects)),
            )
        )

    def _running(self) -> set[str]:
        """Return the ideas with a trial that runs, also if its start is not in the journal yet."""
        return {
            trial.idea_id
            for trial in self.state.trials.values()
            if trial.trial_id in self.state.running
            or (
                not trial.has_ended
                and presence.began(self.paths.trial(trial.trial_id), trial.run) is not None
            )
        }

    def _name(self, path: Path) -> str:
        return path.relative_to(self.paths.root).as_posix()


def make_way(paths: RunPaths, path: Path) -> Path:
    """Return a path of the run directory, made ready for writing a file there. Raises OSError.

    Removes links and files that a candidate put in place of its parent folders, and a folder at the
    path itself. The run directory's own folders may be links: people keep them on other disks.
    """
    folder = paths.root
    for part in path.relative_to(paths.root).parts[:-1]:
        folder = folder / part
        is_link = folder.is_symlink() and folder.parent != paths.root
        if is_link or not folder.is_dir():
            folders.remove(folder)
            folder.mkdir(mode=0o700 if folder == paths.trials else 0o777)
    if path.is_dir() and not path.is_symlink():
        folders.remove(path)
    return path


def _read(path: Path) -> dict[str, str]:
    """Return a file's or folder's texts in a copy's form. Raises OSError, UnicodeDecodeError."""
    if not path.is_dir():
        return {FILE: read_regular(path, follow=False).decode()}
    return {
        file.relative_to(path).as_posix(): read_regular(file, follow=False).decode()
        for file in tree_files(path)
    }


def _is_file_of(path: Path, content: bytes) -> bool:
    """Return whether a regular file has this content. It reads no more bytes than `content` has."""
    try:
        return read_regular(path, len(content), follow=False) == content
    except OSError:
        return False


def _mark(path: Path) -> object:
    """Return the marks of a path and of everything below it: they differ if contents do.

    Every trial's end compares every file of every idea, so this makes no `Path` and resolves links
    by one call.
    """
    top = os.fspath(path)
    try:
        descriptor = os.open(top, os.O_PATH)
        try:
            true_path = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 (speed)
            info = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        found = [(top, change_mark(os.lstat(top))), (true_path, change_mark(info))]
        if stat.S_ISDIR(info.st_mode):
            found += itertools.islice(_marks_below(top), _ENTRIES)
    except OSError:
        return _GONE
    return found


def _marks_below(top: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the path and mark of everything below a folder; links there are not followed.

    Raises OSError. Not recursive: a candidate can nest folders deeper than Python can recurse.
    """
    waiting = [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except PermissionError:
            continue  # who makes it readable again changes its own mark
        for entry in entries:
            yield entry.path, change_mark(entry.stat(follow_symlinks=False))
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


# Results that are made once and kept in a file of the run directory.

V = TypeVar("V", bound=BaseModel)


async def once(
    path: Path, kind: type[V], make: Callable[[], Awaitable[V]], integrity: FileIntegrity | None
) -> V:
    """Return the content of a file; if the file is missing, make the content and write it.

    Raises RunDirectoryError if the file is damaged.
    """
    try:
        return kind.model_validate_json(
            integrity.read(path, recorded=False) if integrity else read_regular(path, follow=False)
        )
    except FileNotFoundError:
        pass
    except (OSError, ValidationError) as error:
        raise RunDirectoryError(
            f"{path}: is damaged; delete it, and it is made again from the recorded replies"
        ) from error
    made = await make()
    path.parent.mkdir(parents=True, exist_ok=True)
    text = made.model_dump_json(indent=2) + "\n"
    write_text(path, text)
    if integrity is not None:
        integrity.keep(path, text)
    return made
