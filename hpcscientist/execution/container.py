"""The Apptainer command of a candidate, and telling Apptainer's failures from the candidate's.

A shell in the container prints `BEGUN` before it becomes the candidate. Nobody can take that
back, so a candidate cannot pass for a container that did not start, whatever it prints and
whatever it exits with.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hpcscientist.execution.candidate import arguments, settings
from hpcscientist.records.trial import TrialSpec

CODE, DATA, OUT, WORK = "/code", "/data", "/out", "/work"

# Writable places that Apptainer would otherwise keep in memory, where no bound holds.
_ALSO_WORK = ("/tmp", "/var/tmp", "/dev/shm")

BEGUN = "[hpcsci: the container has started]"
_SHELL = (
    'command -v python3 >/dev/null || { echo "the image has no python3"; exit 1; }; '
    f'echo "{BEGUN}"; exec "$@"'
)

# Whoever root's candidates run as. Root without any capability may still write below
# /proc/sys and so leave the container; and `--no-privs` is needed in any case where the
# machine withholds CAP_SYS_RESOURCE from root.
NOBODY = 65534
_AS_NOBODY = ("--no-privs", "--security", f"uid:{NOBODY},gid:{NOBODY}")

OWN_MB = 64  # what Apptainer's own processes hold beside the candidate; 41 to 57 were seen

_HEAD_BYTES = 1 << 16


def apptainer_command(
    spec: TrialSpec,
    code_dir: Path,
    out: Path,
    scratch: Path,
    host: Mapping[str, str],
    is_root: bool = False,
) -> list[str]:
    """Return the command that runs a candidate in its image.

    It sees its code and data read-only, `out` and a private working folder, a network with
    nothing but itself, and no variable of ours but those given here. For root it runs as
    somebody else: `hand_over` first.
    """
    inside = settings(spec, WORK)
    if spec.limits.gpus and "CUDA_VISIBLE_DEVICES" in host:
        inside["CUDA_VISIBLE_DEVICES"] = host["CUDA_VISIBLE_DEVICES"]
    binds = [f"{code_dir}:{CODE}:ro", f"{spec.sources.data}:{DATA}:ro", f"{out}:{OUT}"]
    binds += [f"{scratch}:{place}" for place in (WORK, *_ALSO_WORK)]
    return [
        *("apptainer", "--silent", "exec", "--containall", "--no-home"),
        *("--net", "--network", "none"),
        *(_AS_NOBODY if is_root else ()),
        *(["--nv"] if spec.limits.gpus else []),
        *("--pwd", WORK),
        *(part for bind in binds for part in ("--bind", bind)),
        str(spec.sources.image),
        *("sh", "-c", _SHELL, "sh"),
        # Not by --env: it refuses HOME and splits values at commas.
        *("env", *(f"{name}={value}" for name, value in sorted(inside.items()))),
        *("python3", "-B", f"{CODE}/{spec.sources.entry}"),
        *arguments(spec, DATA, OUT),
    ]


def unbindable(paths: tuple[str, ...]) -> str | None:
    """Return the first path that `--bind` cannot express, or None."""
    return next((path for path in paths if set(path) & set(":,")), None)


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
    fatal = [line for line in lines if line.startswith("FATAL")]
    return next(iter(fatal or lines[-1:]), "Apptainer printed nothing")


def of_candidate(text: str) -> str:
    """Return the part of a log's end that the candidate wrote."""
    return text.partition(f"{BEGUN}\n")[2] if f"{BEGUN}\n" in text else text
