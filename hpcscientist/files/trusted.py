"""Trusted copies of files that decide a campaign, below the root of labels.

A candidate without a sandbox can write into the run directory, but no path that it is given leads
here. The recipe, ideas' code, campaign.toml and the journal each have a copy here. If the run
directory differs from the copy, the copy counts. Reading a campaign needs no copies: a run
directory that was moved, or copied to another machine, has none until a driver resumes it there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.files import log, vault
from hpcscientist.files.handed import resolved

FOLDER = "trusted"  # below the root of labels
FILE = ""  # the name under which a single file's text is stored
_PLACE = "run_dir"  # a file with the run directory's path
_FILES = b', "files": '
# What reading a damaged copy raises: JSON may be of another type, or nested without end.
_DAMAGED = (OSError, ValueError, LookupError, TypeError, RecursionError)


def copy_of(kind: str, content_hash: str) -> Path:
    """Return the folder of a copy by kind and content hash; campaigns with equal content share."""
    return vault.path_of(f"{FOLDER}/{kind}/{content_hash}")


@dataclass(frozen=True, slots=True)
class TrustedCopy:
    """The copies of one campaign in one run directory. `root` may not exist."""

    root: Path

    @classmethod
    def of(cls, run_dir: Path, campaign_id: str) -> TrustedCopy:
        """Return the copies of a campaign in a run directory; each run directory has its own."""
        return cls(vault.path_of(f"{FOLDER}/{campaign_id}-{_place(run_dir)}"))

    @classmethod
    def found(cls, run_dir: Path) -> TrustedCopy | None:
        """Return the copies of the campaign last driven in a run directory; None without copies."""
        folders = vault.path_of(FOLDER).glob(f"*-{_place(run_dir)}")
        ours = [folder for folder in folders if (folder / "campaign.toml").is_file()]
        return cls(max(ours, key=lambda folder: folder.stat().st_mtime)) if ours else None

    @property
    def campaign_id(self) -> str:
        """The campaign's id."""
        return self.root.name.rpartition("-")[0]

    @property
    def campaign(self) -> Path:
        """The copy of campaign.toml."""
        return self.root / "campaign.toml"

    @property
    def journal(self) -> Path:
        """The copy of the journal."""
        return self.root / "journal.jsonl"

    @property
    def contents(self) -> Path:
        """The copies of ideas' files; see `TrustedCopies`."""
        return self.root / "contents.jsonl"

    @property
    def launched(self) -> Path:
        """A marker file: copies exist since launch, so nothing of the campaign predates them."""
        return self.root / "launched"

    @property
    def is_there(self) -> bool:
        """Return whether there are copies."""
        return self.root.is_dir()

    def make(self, run_dir: Path) -> None:
        """Make the folder for a run directory. Raises OSError.

        Removes copies of earlier campaigns in the same place, and of run directories that no longer
        exist.
        """
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.root / _PLACE).write_bytes(os.fsencode(resolved(run_dir.absolute())))
        for place in self.root.parent.glob(f"*/{_PLACE}"):
            if place.parent == self.root:
                continue
            with contextlib.suppress(OSError):  # another launch may remove it at the same time
                same = place.parent.name.endswith(f"-{_place(run_dir)}")
                if same or not Path(os.fsdecode(place.read_bytes())).exists():
                    shutil.rmtree(place.parent)

    def remove(self) -> None:
        """Remove the copies of a campaign whose launch failed."""
        shutil.rmtree(self.root, ignore_errors=True)


class TrustedCopies:
    """Copies of files and folders by name, in one log: a campaign may have thousands of ideas.

    The last copy of a name counts. A folder is stored as a mapping of file names to texts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, int] = {}
        self.is_complete = path.parent.is_dir()  # no copy is missing
        with contextlib.suppress(*_DAMAGED), path.open("rb") as file:
            start = 0
            for line in file:
                head, _, _ = line.partition(_FILES)
                self._places[json.loads(head + b"}")["name"]] = start
                start += len(line)

    @property
    def names(self) -> Collection[str]:
        """The names that have copies."""
        return self._places.keys()

    def put(self, name: str, files: Mapping[str, str]) -> None:
        """Store a copy of files. If it cannot be written, the campaign continues without it."""
        line = json.dumps({"name": name, "files": dict(files)}).encode() + b"\n"
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                self._places[name] = log.append(descriptor, line, durable=False)
            finally:
                os.close(descriptor)
        except OSError:
            self._places.pop(name, None)  # an earlier copy would be out of date
            self.is_complete = False

    def get(self, name: str) -> dict[str, str] | None:
        """Return the last copy of a name; None if it cannot be read."""
        with contextlib.suppress(*_DAMAGED), self._path.open("rb") as file:
            file.seek(self._places[name])
            found: dict[str, str] = json.loads(file.readline())["files"]
            return found
        return None


def _place(run_dir: Path) -> str:
    return hashlib.sha256(os.fsencode(resolved(run_dir.absolute()))).hexdigest()[:16]
