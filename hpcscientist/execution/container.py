"""The Apptainer command of a candidate, as a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hpcscientist.execution.candidate import arguments, settings
from hpcscientist.records.trial import TrialSpec

CODE, DATA, OUT, WORK = "/code", "/data", "/out", "/work"


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
    nothing but itself, and no variable of ours but those given here. As root, Apptainer
    needs `--no-privs` where the machine withholds CAP_SYS_RESOURCE.
    """
    inside = settings(spec, WORK)
    if spec.limits.gpus and "CUDA_VISIBLE_DEVICES" in host:
        inside["CUDA_VISIBLE_DEVICES"] = host["CUDA_VISIBLE_DEVICES"]
    return [
        *("apptainer", "exec", "--containall", "--no-home", "--net", "--network", "none"),
        *(["--no-privs"] if is_root else []),
        *(["--nv"] if spec.limits.gpus else []),
        *("--pwd", WORK),
        *("--bind", f"{code_dir}:{CODE}:ro"),
        *("--bind", f"{spec.sources.data}:{DATA}:ro"),
        *("--bind", f"{out}:{OUT}"),
        *("--bind", f"{scratch}:{WORK}"),
        str(spec.sources.image),
        # Not by --env: it refuses HOME and splits values at commas.
        *("env", *(f"{name}={value}" for name, value in sorted(inside.items()))),
        *("python3", "-B", f"{CODE}/{spec.sources.entry}"),
        *arguments(spec, DATA, OUT),
    ]


def unbindable(paths: tuple[str, ...]) -> str | None:
    """Return the first path that `--bind` cannot express, or None."""
    return next((path for path in paths if set(path) & set(":,")), None)
