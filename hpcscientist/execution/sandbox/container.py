"""Build a candidate's Apptainer command, and tell Apptainer's failures from the candidate's.

A shell in the container prints `BEGUN` before it executes the candidate. The candidate cannot erase
that line, so whatever it prints and however it exits, it never looks like a container that did not
start.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.errors import HpcsciError, Interrupted
from hpcscientist.execution import folders
from hpcscientist.execution.sandbox.host import arguments, gpus, scratch_base, settings
from hpcscientist.records.trial import Isolation, TrialSpec
from hpcscientist.system.interpreter import Interpreter

CODE, DATA, OUT, WORK = "/code", "/data", "/out", "/work"

# Writable places that Apptainer would otherwise keep in memory, where no limit applies.
_ALSO_WORK = ("/tmp", "/var/tmp", "/dev/shm")
_SYSTEM = ("/proc", "/sys", "/dev")

BEGUN = "[hpcsci: the container has started]"
# Apptainer's variables tell every program which host folders are bound.
_TELLTALES = " ".join(
    f"{maker}_{name}"
    for maker in ("APPTAINER", "SINGULARITY")
    for name in ("APPNAME", "BIND", "COMMAND", "CONTAINER", "ENVIRONMENT", "NAME")
)
_SHELL = (
    f"unset {_TELLTALES}; "
    'command -v python3 >/dev/null || { echo "the image has no python3"; exit 1; }; '
    f'echo "{BEGUN}"; exec "$@"'
)

# The user that candidates run as if we are root. Root without any capability may still write below
# /proc/sys and so escape the container. `--no-privs` is needed anyway on machines that withhold
# CAP_SYS_RESOURCE from root.
NOBODY = 65534
_AS_NOBODY = ("--no-privs", "--security", f"uid:{NOBODY},gid:{NOBODY}")

# What Apptainer's own processes need besides the candidate: 41 to 57 MiB were measured.
OWN_MB = 64
OWN_TASKS = 128

_OURS = "[hpcsci note: "  # starts our own lines in a trial's log

_HEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of this machine that a candidate sees: all but `out` and `work` read-only.

    `more` has pairs of a path on the host and its path in the container. If `parts` is given, one
    of several processes sees only these below DATA, by name, instead of `data`.
    """

    image: str
    code: Path
    data: Path
    out: Path
    work: Path
    more: tuple[tuple[str, str], ...] = ()
    parts: Mapping[str, Path] | None = None


def apptainer_command(
    spec: TrialSpec,
    places: Places,
    host: Mapping[str, str],
    is_root: bool = False,
    process: str = "",
) -> list[str]:
    """Return the command that runs a candidate, or one of its processes, in its image.

    The candidate sees `places` and only the environment variables set here. It has no network
    unless the site leaves it open. If `is_root`, it runs as NOBODY: call `hand_over` first.
    """
    inside = settings(spec, WORK) | gpus(spec, host)
    binds = [f"{outside}:{target}:ro" for outside, target in places.more]
    shown = {DATA: places.data}
    if places.parts is not None:
        shown = {f"{DATA}/{name}": path for name, path in places.parts.items()}
    binds += [f"{places.code}:{CODE}:ro"]
    binds += [f"{path}:{target}:ro" for target, path in shown.items()]
    binds += [f"{places.out}:{OUT}"]
    binds += [f"{places.work}:{place}" for place in (WORK, *_ALSO_WORK)]
    return [
        *("apptainer", "--silent", "exec", "--containall", "--no-home"),
        # A user may write to their own branch of /sys/fs/cgroup: a candidate could freeze and kill
        # their other programs by it. Programs for GPUs look up their devices in /sys.
        *("--no-mount", "bind-paths" if spec.limits.gpus else "sys,bind-paths"),
        *(("--net", "--network", "none") if spec.host.network == "none" else ()),
        *(_AS_NOBODY if is_root else ()),
        *(["--nv"] if spec.limits.gpus else []),
        *("--pwd", WORK),
        *(part for bind in binds for part in ("--bind", bind)),
        places.image,
        *("sh", "-c", _SHELL, "sh"),
        # Not --env: it refuses HOME and splits values at commas.
        *("env", *(f"{name}={value}" for name, value in sorted(inside.items()))),
        *("python3", "-B", f"{CODE}/{spec.sources.entry}"),
        *arguments(spec, DATA, OUT, process),
    ]


def python_command(image: str, is_root: bool = False) -> list[str]:
    """Return the command of an image's Python as candidates run it, with nothing bound."""
    return [
        *("apptainer", "--silent", "exec", "--containall", "--no-home"),
        *("--no-mount", "sys,bind-paths", "--pwd", "/"),
        *(("--no-privs",) if is_root else ()),
        *(image, "python3"),
    ]


def unbindable(places: Places) -> str | None:
    """Return why a place cannot be bound, with the fix, or None."""
    own = (places.code, places.data, places.out, places.work)
    for path in (*map(str, own), *(part for pair in places.more for part in pair)):
        if set(path) & set(":,"):
            return f"Apptainer cannot bind {path}: use a path without colon and comma"
    for _, target in places.more:
        if _hides(target, (CODE, DATA, OUT, WORK, *_ALSO_WORK, *_SYSTEM)):
            return f"host.binds puts a folder at {target}, which is taken: name another place"
    return None


def _hides(target: str, taken: Iterable[str]) -> bool:
    path = Path(os.path.normpath(target))
    return any(
        path == Path(place) or path in Path(place).parents or Path(place) in path.parents
        for place in taken
    )


def note(text: str) -> bytes:
    """Return a line of our own for a trial's log, to be written before the candidate's output."""
    return f"{_OURS}{text}]\n".encode()


def unreadable(data: Path) -> Path | None:
    """Return the first folder of the data that others may not read, or None. Raises OSError."""
    folders = [data, *(path for path in sorted(data.iterdir()) if path.is_dir())]
    return next((path for path in folders if path.stat().st_mode & 0o005 != 0o005), None)


def hand_over(folders: tuple[Path, ...]) -> None:
    """Make NOBODY the owner of folders that we made, and of all in them. Raises OSError."""
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def start_failure(log: Path) -> str | None:
    """Return why the container did not start, from its log; None if it did.

    Raises OSError.
    """
    with log.open("rb") as file:
        head = file.read(_HEAD_BYTES).decode("utf-8", "replace")
    lines = [line.strip() for line in head.splitlines() if line.strip()]
    if BEGUN in lines:
        return None
    said = [line for line in lines if not line.startswith(_OURS)]
    fatal = [line for line in said if line.startswith("FATAL")]
    return next(iter(fatal or said[-1:]), "Apptainer printed nothing")


def of_candidate(text: str) -> str:
    """Return the candidate's part of the end of a log."""
    return text.partition(f"{BEGUN}\n")[2] if f"{BEGUN}\n" in text else text


# A container image on the node's local disk, copied from the shared file system once per node.
#
# Without it, a hundred trials that start together would read the same file through the shared file
# system a hundred times, for as long as they run. Copies are in `hpcsci-images-USER` below the
# site's scratch, named by the hash of their content. A worker that copies an image holds an
# exclusive lock, workers that use it a shared lock. So a copy is removed only when nobody uses it.
# The locks (flock(2)) are on the node's disk and need no lock daemon.
#
# Without a copy, the shared image is compared with the hash recorded at launch, once per node. The
# result is kept beside the copies. It is valid while the file's size, modification time and inode
# stay the same.

WAIT_S = 600.0  # how long to wait for another worker's copy before using the shared image
_POLL_S = 0.1
_CHUNK = 1 << 22
_SPARE_MB = 256  # left free for the trials' own files
_COPY, _LOCK, _PART, _KNOWN = ".sif", ".lock", ".part", ".known"


class WrongImage(HpcsciError):
    """The image is not the one that was recorded at launch."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} was changed since launch: restore the image that was recorded at launch, or "
            "launch a campaign with this one"
        )


@dataclass(frozen=True, slots=True)
class Image:
    """The image to run. `trouble`: why a wanted copy could not be made; "" otherwise."""

    path: str
    trouble: str = ""


class _NoCopy(Exception):
    """No copy can be made; the message says why."""


@contextmanager
def on_node(spec: TrialSpec, stop: threading.Event) -> Iterator[Image]:
    """Yield the image to run, and keep it until the block ends.

    It is a copy on this node if the site wants one. If the copy cannot be made for any reason, the
    shared image is used instead. Raises WrongImage, HostUnfit, OSError if the image cannot be read,
    and Interrupted if `stop` is set.
    """
    shared = str(spec.sources.image)
    if not spec.host.copy_image:
        _verify(spec, Path(shared), stop)
        yield Image(shared)
        return
    with contextlib.ExitStack() as stack:
        try:
            image = Image(str(stack.enter_context(_copy(spec, Path(shared), stop))))
        except (_NoCopy, OSError) as error:
            why = error.strerror or error if isinstance(error, OSError) else error
            _verify(spec, Path(shared), stop)
            image = Image(shared, f"the image was not copied to this node: {why}")
        yield image


def _verify(spec: TrialSpec, shared: Path, stop: threading.Event) -> None:
    """Compare the shared image with the recorded hash, once per node. Raises as `on_node` does.

    An unpacked image is not checked: its folder's modification time says nothing about its files.
    """
    wanted = spec.provenance.image_hash
    if wanted is None or not shared.is_file():
        return
    with contextlib.ExitStack() as stack:
        known = None
        try:
            folder = _folder(scratch_base(spec.host))
            name = hashlib.sha256(f"{wanted}\n{shared}".encode()).hexdigest()[:32]
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            known = os.open(folder / f"{name}{_KNOWN}", flags, 0o600)
            stack.callback(os.close, known)
        except (_NoCopy, OSError):
            pass  # this node cannot store the result
        if _is_known(known, shared):
            return
        if known is not None:
            _await(known, stop)  # the worker that holds it may be hashing the image now
            if _is_known(known, shared):
                return
        before = _signs(shared)
        if _hash(shared, stop) != wanted:
            raise WrongImage(shared)
        if known is not None and _signs(shared) == before:
            with contextlib.suppress(OSError):  # a full disk
                os.ftruncate(known, 0)
                os.pwrite(known, before, 0)


def _signs(path: Path) -> bytes:
    """Return a file's size, modification time and inode as one line."""
    info = path.stat()
    return f"{info.st_size} {info.st_mtime_ns} {info.st_ino}\n".encode()


def _is_known(known: int | None, shared: Path) -> bool:
    return known is not None and os.pread(known, 256, 0) == _signs(shared)


def _await(descriptor: int, stop: threading.Event) -> None:
    """Wait for a lock for at most WAIT_S; then continue without it."""
    until = time.monotonic() + WAIT_S
    with contextlib.suppress(OSError):  # no locks on this file system
        while not _lock(descriptor, fcntl.LOCK_EX) and time.monotonic() < until:
            if stop.is_set():
                raise Interrupted("stopped while the image was checked")
            time.sleep(_POLL_S)


def _hash(path: Path, stop: threading.Event) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK):
            if stop.is_set():
                raise Interrupted("stopped while the image was checked")
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _copy(spec: TrialSpec, shared: Path, stop: threading.Event) -> Iterator[Path]:
    wanted = spec.provenance.image_hash
    if wanted is None:
        raise _NoCopy("its hash is not known")
    if not shared.is_file():
        raise _NoCopy("it is a folder" if shared.is_dir() else "it is not there")
    folder = _folder(scratch_base(spec.host))
    copy = folder / f"{wanted}{_COPY}"
    descriptor = os.open(copy.with_suffix(_LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _have(descriptor, shared, copy, wanted, stop)
        os.utime(descriptor)  # `_make_room` removes the least recently used image first
        yield copy
    finally:
        os.close(descriptor)


def _have(descriptor: int, shared: Path, copy: Path, wanted: str, stop: threading.Event) -> None:
    """Wait until the copy exists and we hold a shared lock on it; make it if nobody does."""
    until = time.monotonic() + WAIT_S
    while True:
        if _lock(descriptor, fcntl.LOCK_SH) and copy.exists():
            return
        # While several workers hold it shared, none of them could get it exclusively.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        if _lock(descriptor, fcntl.LOCK_EX):
            if not copy.exists():
                _make(shared, copy, wanted, stop)
            continue
        if stop.is_set():
            raise Interrupted("stopped while the image was copied")
        if time.monotonic() > until:
            raise _NoCopy(f"another worker has been copying it for {WAIT_S:g} s")
        time.sleep(_POLL_S)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _folder(base: Path) -> Path:
    """Return this user's folder of images. Raises _NoCopy if others may access it."""
    folder = base / f"hpcsci-images-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    info = folder.stat(follow_symlinks=False)
    if folder.is_symlink() or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise _NoCopy(f"{folder} is not this user's alone")
    return folder


def _make(shared: Path, copy: Path, wanted: str, stop: threading.Event) -> None:
    """Copy the image; the caller holds its lock exclusively."""
    for left in copy.parent.glob(f"{copy.stem}{_PART}"):
        left.unlink()
    size = shared.stat().st_size
    _make_room(copy, size)
    part, digest = copy.with_suffix(_PART), hashlib.sha256()
    try:
        with shared.open("rb") as source, part.open("xb") as target:
            while chunk := source.read(_CHUNK):
                if stop.is_set():
                    raise Interrupted("stopped while the image was copied")
                digest.update(chunk)
                target.write(chunk)
        if digest.hexdigest() != wanted:
            raise WrongImage(shared)
        part.chmod(0o400)
        part.rename(copy)
    finally:
        part.unlink(missing_ok=True)


def _make_room(copy: Path, size: int) -> None:
    """Remove other unused images until there is enough space. Raises _NoCopy."""
    needed = size / 2**20 + _SPARE_MB
    others = (path for path in copy.parent.glob(f"*{_COPY}") if path != copy)
    for other in sorted(others, key=lambda path: path.with_suffix(_LOCK).stat().st_mtime):
        if folders.free_mb(copy.parent) >= needed:
            return
        _remove_unused(other)
    free = folders.free_mb(copy.parent)
    if free < needed:
        raise _NoCopy(f"{free:.0f} MiB are free in {copy.parent}, {needed:.0f} are needed")


def _remove_unused(image: Path) -> None:
    with contextlib.suppress(OSError):  # another worker has just removed it
        descriptor = os.open(image.with_suffix(_LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if _lock(descriptor, fcntl.LOCK_EX):
                image.unlink()
        finally:
            os.close(descriptor)


# The Python that candidates run in: the driver's own, or the one in their image.


def of_candidates(isolation: Isolation, image: str | None, python: str) -> Interpreter:
    """Return the Python that candidates run in, to query it.

    `python` runs candidates without an image. A driver that has no Apptainer or does not see the
    image gets no answers.
    """
    if isolation is Isolation.NONE:
        return Interpreter((python,))
    return Interpreter(python_command(image, os.geteuid() == 0) if image else None)
