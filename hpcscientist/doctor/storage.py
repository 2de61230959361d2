"""Checks of the file system for run directories: its behavior, free space, and quotas."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.doctor.check import CheckState, DoctorCheck, graded, missing, ok

# With less than this, a campaign of a few hundred ideas may not finish.
ENOUGH_MB, ENOUGH_INODES = 5 * 1024, 50_000
_IN_MEMORY = ("tmpfs", "ramfs")
_QUOTA_S = 20.0


@dataclass(frozen=True, slots=True)
class Quota:
    """A user's usage and limits on a file system, in KiB and files; a limit of 0 means none."""

    where: str
    used_kb: int
    limit_kb: int
    files: int
    limit_files: int


def checks(where: Path, folder: Path) -> list[DoctorCheck]:
    """Return the checks of where run directories would be; `folder` is an empty folder there."""
    quotas = [check_quota(quota) for quota in read_quotas(where)]
    return [behaviour(where, folder), *space(where), *quotas]


def behaviour(where: Path, folder: Path) -> DoctorCheck:
    """Test what run directories rely on: atomic rename, exclusive creation, fsync."""
    name = "file system"
    kind = file_system(folder)
    try:
        fault = _fault(folder)
    except OSError as error:
        return missing(
            name, f"{where} cannot be written: {error.strerror}", "give another --run-dir"
        )
    if fault is not None:
        return missing(name, f"{where} ({kind}): {fault}", "give another --run-dir")
    return graded(
        CheckState.WARNING if kind in _IN_MEMORY else CheckState.OK,
        name,
        f"{where} ({kind}): renames are atomic, exclusive creation holds",
        "it is in memory and is lost when this machine stops: give another --run-dir",
    )


def _fault(folder: Path) -> str | None:
    """Return what does not work in a folder. Raises OSError."""
    old, new = folder / "old", folder / "new"
    for path, text in ((old, b"old"), (new, b"new")):
        with path.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    with old.open("rb") as reader:
        new.rename(old)
        if old.read_bytes() != b"new" or new.exists() or reader.read() != b"old":
            return "a rename does not replace a file atomically"
    try:
        os.close(os.open(old, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        old.unlink()
        return None
    return "exclusive creation (O_EXCL) does not hold"


def file_system(folder: Path) -> str:
    """Return the type of a folder's file system, such as `ext4` or `lustre`."""
    try:
        table = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown type"
    return type_in(table, str(folder.resolve()))


def type_in(table: str, path: str) -> str:
    """Return a path's file system type from /proc/mounts; the last of the longest matches wins."""
    best, kind = "", "unknown type"
    for line in table.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        where = re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), fields[1])
        below = path == where or path.startswith(where.rstrip("/") + "/")
        if below and len(where) >= len(best):
            best, kind = where, fields[2]
    return kind


def space(folder: Path) -> list[DoctorCheck]:
    """Return the checks of free space and free inodes."""
    info = os.statvfs(folder)
    free_mb = info.f_bavail * info.f_frsize // 2**20
    found = [
        graded(
            CheckState.OK if free_mb >= ENOUGH_MB else CheckState.WARNING,
            "space",
            f"{free_mb / 1024:.1f} GiB free for {folder}",
            "free some space, or give another --run-dir",
        )
    ]
    if info.f_files == 0:
        found.append(ok("inodes", f"not counted by the file system of {folder}"))
    else:
        found.append(
            graded(
                CheckState.OK if info.f_favail >= ENOUGH_INODES else CheckState.WARNING,
                "inodes",
                f"{info.f_favail} free of {info.f_files}",
                "remove files, or give another --run-dir",
            )
        )
    return found


def read_quotas(folder: Path) -> list[Quota]:
    """Return the quotas from `lfs quota` (Lustre) or `quota`; empty if neither answers."""
    user = getpass.getuser()
    commands = {"quota": ["quota", "--no-wrap", "--user", user]}
    if file_system(folder) == "lustre":
        commands = {"lfs": ["lfs", "quota", "-q", "-u", user, str(folder)]}
    for program, command in commands.items():
        if shutil.which(program):
            try:
                done = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=_QUOTA_S,
                    env={**os.environ, "LC_ALL": "C"},
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired):
                return []
            return parse_quotas(done.stdout)
    return []


def parse_quotas(text: str) -> list[Quota]:
    """Return the rows of `quota` or `lfs quota`.

    Both write: file system, KiB used (`*`: over), soft limit, hard limit, grace, files used,
    soft limit, hard limit, grace; `quota` leaves an empty grace out.
    """
    found = []
    for line in text.splitlines():
        where, *rest = line.split() or [""]
        numbers = [int(word.rstrip("*")) for word in rest if re.fullmatch(r"\d+\*?", word)]
        if len(numbers) == 6 and re.fullmatch(r"\d+\*?", rest[0]):
            used_kb, soft_kb, hard_kb, files, soft_files, hard_files = numbers
            found.append(Quota(where, used_kb, soft_kb or hard_kb, files, soft_files or hard_files))
    return found


def check_quota(quota: Quota) -> DoctorCheck:
    """Return the check that a quota leaves enough space and files."""
    left_mb = (quota.limit_kb - quota.used_kb) // 1024 if quota.limit_kb else None
    left_files = quota.limit_files - quota.files if quota.limit_files else None
    enough = (left_mb is None or left_mb >= ENOUGH_MB) and (
        left_files is None or left_files >= ENOUGH_INODES
    )
    room = "no limit" if left_mb is None else f"{left_mb / 1024:.1f} GiB left"
    files = "no limit of files" if left_files is None else f"{left_files} files left"
    return graded(
        CheckState.OK if enough else CheckState.WARNING,
        f"quota {quota.where}",
        f"{room}, {files}",
        "free some space there, ask for more, or give a --run-dir elsewhere",
    )
