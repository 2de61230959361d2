"""The Apptainer command of a candidate, and telling Apptainer's failures from the candidate's.

A shell in the container prints `BEGUN` before it becomes the candidate. Nobody can take that
back, so a candidate cannot pass for a container that did not start, whatever it prints and
whatever it exits with.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.execution.sandbox.host import arguments, gpus, settings
from hpcscientist.records.trial import TrialSpec

CODE, DATA, OUT, WORK = "/code", "/data", "/out", "/work"

# Writable places that Apptainer would otherwise keep in memory, where no bound holds.
_ALSO_WORK = ("/tmp", "/var/tmp", "/dev/shm")
_SYSTEM = ("/proc", "/sys", "/dev")

BEGUN = "[hpcsci: the container has started]"
# Apptainer tells every program which host folders were bound for it.
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

# Whoever root's candidates run as. Root without any capability may still write below
# /proc/sys and so leave the container; and `--no-privs` is needed in any case where the
# machine withholds CAP_SYS_RESOURCE from root.
NOBODY = 65534
_AS_NOBODY = ("--no-privs", "--security", f"uid:{NOBODY},gid:{NOBODY}")

# What Apptainer's own processes take beside the candidate: 41 to 57 MiB were seen.
OWN_MB = 64
OWN_TASKS = 128

_OURS = "[hpcsci note: "  # begins what we have to say in a trial's log

_HEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Places:
    """What of this machine a candidate sees: all but `out` and `work` read-only.

    `more` are pairs of a path here and the one inside. `parts` are seen below DATA instead of
    `data`, by name: all that one of several processes sees.
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

    It sees `places`, a network with nothing but itself unless the site leaves it open, and no
    variable of ours but those given here. For root it runs as somebody else: `hand_over` first.
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
        # A user's own branch of /sys/fs/cgroup can be written: their other programs could be
        # frozen and killed by it. Programs for GPUs look their devices up in /sys.
        *("--no-mount", "bind-paths" if spec.limits.gpus else "sys,bind-paths"),
        *(("--net", "--network", "none") if spec.host.network == "none" else ()),
        *(_AS_NOBODY if is_root else ()),
        *(["--nv"] if spec.limits.gpus else []),
        *("--pwd", WORK),
        *(part for bind in binds for part in ("--bind", bind)),
        places.image,
        *("sh", "-c", _SHELL, "sh"),
        # Not by --env: it refuses HOME and splits values at commas.
        *("env", *(f"{name}={value}" for name, value in sorted(inside.items()))),
        *("python3", "-B", f"{CODE}/{spec.sources.entry}"),
        *arguments(spec, DATA, OUT, process),
    ]


def python_command(image: str, is_root: bool = False) -> list[str]:
    """Return the command of an image's Python, as candidates have it, with nothing bound."""
    return [
        *("apptainer", "--silent", "exec", "--containall", "--no-home"),
        *("--no-mount", "sys,bind-paths", "--pwd", "/"),
        *(("--no-privs",) if is_root else ()),
        *(image, "python3"),
    ]


def unbindable(places: Places) -> str | None:
    """Return why a place cannot be bound, with the mend, or None."""
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
    """Return a line of ours for a trial's log, to stand before the candidate's."""
    return f"{_OURS}{text}]\n".encode()


def unreadable(data: Path) -> Path | None:
    """Return the data's first folder that only its owner may read, or None. Raises OSError."""
    folders = [data, *(path for path in sorted(data.iterdir()) if path.is_dir())]
    return next((path for path in folders if path.stat().st_mode & 0o005 != 0o005), None)


def hand_over(folders: tuple[Path, ...]) -> None:
    """Make NOBODY the owner of all below folders of our own making. Raises OSError."""
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def start_failure(log: Path) -> str | None:
    """Return why the container did not start, by its log; None when it did.

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
    """Return the part of a log's end that the candidate wrote."""
    return text.partition(f"{BEGUN}\n")[2] if f"{BEGUN}\n" in text else text
