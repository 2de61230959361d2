"""Measure and empty folders that a hostile program wrote into.

Nothing here follows symbolic links or recurses: a program can nest folders deeper than the limits
on paths and call stacks.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import itertools
import json
import os
import shutil
import stat
import uuid
from pathlib import Path
from typing import Any

from hpcscientist.files import vault
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.handed import read_regular
from hpcscientist.files.hashing import tree_files
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.files.trusted import TrustedCopy
from hpcscientist.records.trial import TrialSpec

# spec.json: what a trial is to run, signed by the driver that wrote it.
#
# A candidate without a sandbox can write into the folders of other trials. So a worker runs
# only specs signed with the key of the campaign whose run directory they are in. Only if this
# user has no key of that campaign, an unsigned spec is accepted.


_SEAL = "seal"


class UnsignedSpec(ValueError):
    """The file is not what the campaign's driver wrote."""


def write_spec(paths: TrialPaths, spec: TrialSpec, *, durable: bool = True) -> None:
    """Write a trial's spec.json. Raises OSError."""
    seal = _seal(spec.provenance.campaign_id, json.loads(spec.model_dump_json()))
    text = spec.model_copy(update={_SEAL: seal}).model_dump_json(indent=1)
    write_atomic(paths.spec, text.encode(), durable=durable)


def read_spec(paths: TrialPaths) -> TrialSpec:
    """Return what a trial is to run. Raises Unsealed, ValueError (not a spec) and OSError."""
    text = read_regular(paths.spec)
    spec, content = TrialSpec.model_validate_json(text), json.loads(text)
    campaign_id = spec.provenance.campaign_id
    copy = TrustedCopy.found(paths.root.parent.parent)
    if copy is not None and copy.campaign_id != campaign_id:
        raise UnsignedSpec(f"{paths.spec}: is of another campaign")
    if not hmac.compare_digest(spec.seal, _seal(campaign_id, content)):
        raise UnsignedSpec(f"{paths.spec}: is not what the campaign's driver wrote")
    return spec


def _seal(campaign_id: str, content: dict[str, Any]) -> str:
    """Return the signature of the file's fields without the signature itself.

    It covers the fields as they are in the file, not as `TrialSpec` knows them: another version of
    the package may have written the file.
    """
    told = {name: value for name, value in content.items() if name != _SEAL}
    return vault.seal(campaign_id, json.dumps(told, sort_keys=True).encode())


MAX_ENTRIES = 20_000  # more entries count as too much output: file systems have inode quotas


def empty(folder: Path) -> None:
    """Remove everything in a folder, but keep the folder. Raises OSError."""
    while entries := list(os.scandir(folder)):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                Path(entry.path).unlink()
                continue
            # Lift grandchildren one level up instead of walking down to them.
            Path(entry.path).chmod(0o700)
            for inner in list(os.scandir(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    Path(inner.path).chmod(0o700)
                    Path(inner.path).rename(folder / f".{uuid.uuid4().hex}")
                else:
                    Path(inner.path).unlink()
            Path(entry.path).rmdir()


def remove(path: Path) -> None:
    """Remove a file, link or whole folder, if it exists. Raises OSError."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    path.chmod(0o700)
    empty(path)
    path.rmdir()


def renew(path: Path) -> None:
    """Make `path` an empty folder, whatever it was. Raises OSError."""
    remove(path)
    path.mkdir(parents=True)


def measure(folders: tuple[Path, ...], enough: int) -> tuple[int, int]:
    """Return (bytes on disk, entries) below folders; stop counting past `enough` bytes.

    Nothing stays hidden: the owner's permissions on a folder are restored if they were removed, and
    folders nested too deep for a path count as too many entries.
    """
    size = entries = 0
    todo = [(os.fspath(folder), os.fspath(folder)) for folder in folders]
    while todo and size <= enough and entries <= MAX_ENTRIES:
        root, path = todo.pop()
        found = _entries(root, path)
        if found is None:
            return size, MAX_ENTRIES + 1
        for entry in found:
            entries += 1
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    return size, MAX_ENTRIES + 1
                continue  # it vanished
            size += info.st_blocks * 512
            if stat.S_ISDIR(info.st_mode):
                todo.append((root, entry.path))
    return size, entries


def _entries(root: str, path: str) -> list[os.DirEntry[str]] | None:
    """Return a folder's entries: [] if it vanished, None if it is nested too deep for a path."""
    for _ in range(2):
        try:
            with os.scandir(path) as scan:
                return list(itertools.islice(scan, MAX_ENTRIES + 1))
        except PermissionError:
            with contextlib.suppress(OSError):
                _open_up(root, path)
        except OSError as error:
            return None if error.errno == errno.ENAMETOOLONG else []
    return []


def _open_up(root: str, path: str) -> None:
    """Restore the owner's permissions on a folder; follow no link below `root`. Raises OSError."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
    folder = os.open(root, flags)
    try:
        for part in Path(path).relative_to(root).parts:
            inner = os.open(part, flags, dir_fd=folder)
            os.close(folder)
            folder = inner
        Path(f"/proc/self/fd/{folder}").chmod(0o700)
    finally:
        os.close(folder)


def leave_plain(folder: Path, size: int) -> None:
    """Keep only plain files and folders in a folder; empty it if it exceeds `size` bytes.

    Afterwards any program can read it safely: no link leads elsewhere, no pipe blocks a reader, no
    file is set-user-ID. Raises OSError.
    """
    held, entries = measure((folder,), size)
    if held > size or entries > MAX_ENTRIES:
        empty(folder)
        return
    found: list[tuple[Path, os.stat_result]] = []
    todo = [folder]
    while todo:
        here = todo.pop()
        here.chmod(0o755)
        for entry in list(os.scandir(here)):
            info = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                todo.append(Path(entry.path))
            else:
                found.append((Path(entry.path), info))
    for path, info in found:
        if not stat.S_ISREG(info.st_mode) or info.st_nlink > 1:
            path.unlink()
        elif info.st_mode & 0o7000 or not info.st_mode & 0o400:
            path.chmod(0o644)


def free_mb(path: Path) -> float:
    """Return the free space for this user on the file system of `path`, in MiB."""
    info = os.statvfs(path)
    return info.f_bavail * info.f_frsize / 2**20


def copy_code(source: Path, target: Path, most: int) -> None:
    """Copy what `hash_tree` covers: regular files, no links, no caches. Raises OSError.

    If these files exceed `most` bytes, nothing is copied.
    """
    target.mkdir()
    found = tree_files(source)
    if sum(path.stat().st_size for path in found) > most:
        return
    for path in found:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


# The output of a lost worker, kept in its trial's log before the worker's files are removed.


def keep_log(paths: TrialPaths, said: str) -> None:
    """Append a lost worker's output to the trial's log; ignore errors."""
    if not said:
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with os.fdopen(os.open(paths.log, flags, 0o644), "ab") as file:
            file.write(f"\n[the worker ended without a result; it said:]\n{said}".encode())
    except OSError:
        return  # full disk, or not a regular file: the trial is lost with or without its log
