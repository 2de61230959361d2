"""The file system that campaigns would lie on: what it can do, and how much is left of it."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpcscientist.doctor import slurm
from hpcscientist.doctor.check import Check, State, graded, missing, ok
from hpcscientist.doctor.compute.records import NodeReport
from hpcscientist.doctor.slurm import NodeKind, Partition
from hpcscientist.launching.serving import nodes
from hpcscientist.models.serving.fitting.layout import Machine
from hpcscientist.models.serving.fitting.memory import memory_by_name, parse_gres
from hpcscientist.records.site import Site

# Below these, a campaign of a few hundred ideas may not come to its end.
ENOUGH_MB, ENOUGH_INODES = 5 * 1024, 50_000
_IN_MEMORY = ("tmpfs", "ramfs")
_QUOTA_S = 20.0


@dataclass(frozen=True, slots=True)
class Quota:
    """What a user may hold. KiB and counts; 0: no limit."""

    where: str
    used_kb: int
    limit_kb: int
    files: int
    limit_files: int


def checks(where: Path, folder: Path) -> list[Check]:
    """Return what can be said of where campaigns would lie. `folder`: an empty one there."""
    quotas = [check_quota(quota) for quota in read_quotas(where)]
    return [behaviour(where, folder), *space(where), *quotas]


def behaviour(where: Path, folder: Path) -> Check:
    """Try what run directories are built on: atomic rename, exclusive creation, fsync."""
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
        State.WARNING if kind in _IN_MEMORY else State.OK,
        name,
        f"{where} ({kind}): renames are atomic, exclusive creation holds",
        "it lies in memory and is lost with this machine: give another --run-dir",
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
            return "a rename does not replace a file whole"
    try:
        os.close(os.open(old, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        old.unlink()
        return None
    return "exclusive creation (O_EXCL) does not hold"


def file_system(folder: Path) -> str:
    """Return the type of the file system a folder lies on, `ext4` or `lustre` say."""
    try:
        table = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown type"
    return type_in(table, str(folder.resolve()))


def type_in(table: str, path: str) -> str:
    """Return a path's type by the lines of /proc/mounts; the last longest mount counts."""
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


def space(folder: Path) -> list[Check]:
    """Return how much room and how many inodes are free for us."""
    info = os.statvfs(folder)
    free_mb = info.f_bavail * info.f_frsize // 2**20
    found = [
        graded(
            State.OK if free_mb >= ENOUGH_MB else State.WARNING,
            "space",
            f"{free_mb / 1024:.1f} GiB free for {folder}",
            "make room, or give another --run-dir",
        )
    ]
    if info.f_files == 0:
        found.append(ok("inodes", f"not counted by the file system of {folder}"))
    else:
        found.append(
            graded(
                State.OK if info.f_favail >= ENOUGH_INODES else State.WARNING,
                "inodes",
                f"{info.f_favail} free of {info.f_files}",
                "remove files, or give another --run-dir",
            )
        )
    return found


def read_quotas(folder: Path) -> list[Quota]:
    """Ask `lfs quota` (Lustre) or `quota`; return nothing where neither is there or answers."""
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


def check_quota(quota: Quota) -> Check:
    """Return whether a quota leaves enough."""
    left_mb = (quota.limit_kb - quota.used_kb) // 1024 if quota.limit_kb else None
    left_files = quota.limit_files - quota.files if quota.limit_files else None
    enough = (left_mb is None or left_mb >= ENOUGH_MB) and (
        left_files is None or left_files >= ENOUGH_INODES
    )
    room = "no limit" if left_mb is None else f"{left_mb / 1024:.1f} GiB left"
    files = "no limit of files" if left_files is None else f"{left_files} files left"
    return graded(
        State.OK if enough else State.WARNING,
        f"quota {quota.where}",
        f"{room}, {files}",
        "make room there, ask for more, or give a --run-dir elsewhere",
    )


# Where models could be served: partitions, the nodes of the job that would drive, this machine.

HERE = "this machine"


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere models could be served. `nodes`: how many there are; `note`: what is not sure.

    `machine` is one node of it; its GPUs' memory is 0 where it is not known.
    """

    name: str
    nodes: int
    machine: Machine
    is_chosen: bool
    note: str = ""


def of_the_job(site: Site, count: int, report: NodeReport | None) -> Place:
    """Return the nodes of a job that drives, as the site profile's [controller] asks for them.

    A launch lays models out there. `report`: what the doctor's job found on one of them.
    """
    own = site.controller
    machine, is_sure = nodes.foreseen(site, count)
    memory_mb = machine.gpu_memory_mb if machine else 0
    note = "" if is_sure or not machine else "; its GPUs' memory is the least of their kind"
    if own.gpus and report is not None and report.gpu_memory_mb:
        memory_mb, note = min(report.gpu_memory_mb), f"; memory as the driver of {report.node} says"
    return Place(
        name="the job of --nodes",
        nodes=count,
        machine=Machine(
            nodes=1,
            gpus=own.gpus,
            gpu_memory_mb=memory_mb,
            cpus=own.cpus,
            memory_mb=own.memory_mb,
        ),
        is_chosen=True,
        note=note,
    )


def places_of(
    found: Sequence[Partition], name: str, report: NodeReport | None, *, binding: bool = True
) -> list[Place]:
    """Return where on a cluster models could be served: partitions with GPUs, and the chosen one.

    `report`: what the doctor's job found on a node of the chosen partition. Without `binding`
    all of them are for comparison only.
    """
    mine = slurm.chosen(found, name)
    return [
        replace(place, is_chosen=place.is_chosen and binding)
        for partition in found
        for kind in partition.kinds
        if kind.usable and (kind.gpus or partition in mine)
        for place in _places(partition, kind, partition in mine, report)
    ]


def _places(
    partition: Partition, kind: NodeKind, is_chosen: bool, report: NodeReport | None
) -> Iterator[Place]:
    nodes = kind.usable
    if partition.max_nodes.isdigit():
        nodes = min(nodes, int(partition.max_nodes))
    for gres, count in parse_gres(kind.gpus) or (("", 0),):
        memory_mb, note = _memory(gres, report if is_chosen else None) if count else (0, "")
        yield Place(
            name=f"{partition.name}" + (f" ({count} {gres or 'GPUs'} a node)" if count else ""),
            nodes=max(1, nodes),
            machine=Machine(
                nodes=1,
                gpus=count,
                gpu_memory_mb=memory_mb,
                cpus=max(1, kind.cpus),
                memory_mb=kind.memory_mb,
            ),
            is_chosen=is_chosen,
            note=note,
        )


def _memory(gres: str, report: NodeReport | None) -> tuple[int, str]:
    """Return the MiB of a GPU, and what is not sure of it: by the driver, or by its name."""
    if report is not None and report.gpu_memory_mb:
        return min(report.gpu_memory_mb), f"; memory as the driver of {report.node} says"
    known = memory_by_name(gres)
    if known is None:
        return 0, f": Slurm calls them {gres!r}" if gres else ": Slurm names no type"
    if known.is_sure:
        return known.mb, ""
    return known.mb, f"; counted as the smallest {gres}, {known.mb / 1024:.0f} GiB"


def here(site: Site) -> Place:
    """Return this machine, on which a launch without --nodes serves, as that counts it."""
    machine = nodes.machine_of(site, nodes.here(), is_slurm=False)
    return Place(name=HERE, nodes=1, machine=machine, is_chosen=True)
