"""Apply a site profile's [host] to this node: variables, scratch, folders to bind."""

from __future__ import annotations

import errno
import os
import re
import site
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hpcscientist.errors import HpcsciError
from hpcscientist.files.atomic import NO_SPACE
from hpcscientist.records.site import Host
from hpcscientist.records.trial import TrialSpec
from hpcscientist.system.processes import CAMPAIGN_MARK, TRIAL_MARK

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


class HostUnfit(HpcsciError):
    """This node lacks something that the site profile says it has; the message names the fix."""


def expand(text: str, setting: str, environment: Mapping[str, str]) -> str:
    """Return `text` with its $VARIABLES replaced by the node's values.

    `setting` names the setting that holds the text, for the message. Raises HostUnfit for a
    variable that is unset or empty: without its value the path would be another one.
    """

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        known = environment.get(name)
        if not known:
            raise HostUnfit(
                f"{setting} is {text!r}, but this node sets no {name}: name another path in the "
                "site profile, or set it in the profile's slurm.setup"
            )
        return known

    return _VARIABLE.sub(value, text)


def scratch_base(host: Host, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for private files on this node; create it for this user alone if missing.

    A folder's owner can replace whatever is in it, so the folder must belong to this user or to
    root. Raises HostUnfit, and OSError on a full disk.
    """
    if not host.scratch:
        return Path(tempfile.gettempdir()).absolute()  # TMPDIR may be "."
    path = Path(expand(host.scratch, "host.scratch", environment))
    if not path.is_absolute():
        raise HostUnfit(f"host.scratch is {path} on this node: it has to be an absolute path")
    try:
        for folder in (*reversed(path.parents), path):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "it cannot be written to")
        if why := unsafe(path.stat()):
            raise PermissionError(errno.EPERM, why)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise
        raise HostUnfit(
            f"host.scratch is {path} on this node, but: {error.strerror}; name another path in "
            "the site profile, such as a folder of your own"
        ) from error
    return path


def unsafe(info: os.stat_result) -> str:
    """Return why a folder's content is not safe from other users; "" if it is safe."""
    if info.st_uid not in (os.geteuid(), 0):
        return f"it belongs to another user (number {info.st_uid}), who could replace our files"
    # A user's own group often has no other member; the system's folders are shared by groups.
    others = stat.S_IWOTH | (stat.S_IWGRP if info.st_uid != os.geteuid() else 0)
    if info.st_mode & others and not info.st_mode & stat.S_ISVTX:
        return "others may write to it, and it has no sticky bit to keep them from our files"
    return ""


def binds(
    host: Host, secret: tuple[Path, ...], environment: Mapping[str, str] = os.environ
) -> tuple[tuple[str, str], ...]:
    """Return the folders that candidates see besides their own, as pairs (outside, inside).

    Raises HostUnfit for a path that does not exist, and for one that would show any of `secret` to
    candidates.
    """
    found = []
    for bind in host.binds:
        outside, _, inside = expand(bind, "host.binds", environment).partition(":")
        path = Path(outside)
        if not path.is_absolute() or not path.exists():
            raise HostUnfit(f"host.binds names {outside}, which this node lacks: fix the profile")
        real = Path(os.path.realpath(path))
        for thing in map(os.path.realpath, secret):
            if real == Path(thing) or real in Path(thing).parents or Path(thing) in real.parents:
                raise HostUnfit(
                    f"host.binds names {outside}, which shows {thing} to candidates: name "
                    "another folder"
                )
        found.append((outside, inside or outside))
    return tuple(found)


# The candidate's command line and environment, as pure functions.
#
# The environment is built from scratch. It takes from the worker's environment only what an
# interpreter on a cluster needs to start (`_TAKEN`); keys, tokens and scheduler variables stay out.

# Environment modules set these two to provide an interpreter and its shared libraries.
_TAKEN = ("PATH", "LD_LIBRARY_PATH")
# The GPUs of the trial, and the order in which they are numbered.
_GPUS = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def arguments(spec: TrialSpec, data: str, out: str, process: str = "") -> list[str]:
    """Return the arguments of every entry point (contract 2)."""
    return [
        *("--data", data, "--out", out, "--seed", str(spec.seed)),
        *("--budget", str(spec.budget), "--split", spec.split.value),
        *(("--process", process) if process else ()),
    ]


def command(
    spec: TrialSpec, code_dir: Path, out: Path, data: str = "", process: str = ""
) -> list[str]:
    """Return the command of a candidate that runs without a container."""
    entry = str(code_dir / spec.sources.entry)
    told = arguments(spec, data or spec.sources.data, str(out), process)
    return [spec.sources.python, "-B", entry, *told]


def settings(spec: TrialSpec, home: str) -> dict[str, str]:
    """Return the variables that depend only on the trial and its home folder."""
    threads = str(spec.limits.cpus)
    return {
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": str(spec.seed % 2**32),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "NUMEXPR_NUM_THREADS": threads,
        "MPLBACKEND": "Agg",
        CAMPAIGN_MARK: spec.provenance.campaign_id,
        TRIAL_MARK: spec.trial_id,
    }


def environment(
    spec: TrialSpec, scratch: Path, host: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the complete environment of a candidate that runs without a container.

    A trial that requests GPUs sees those that the scheduler gave it, any other sees none.
    """
    made = {name: host[name] for name in _TAKEN if name in host}
    if site.ENABLE_USER_SITE:  # HOME changes, so say where `pip install --user` put packages
        made["PYTHONUSERBASE"] = site.getuserbase()
    return made | gpus(spec, host) | settings(spec, str(scratch))


def gpus(spec: TrialSpec, host: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that name a trial's GPUs; if it requests none, it sees none.

    cuBLAS repeats its results bit by bit only with a workspace of a fixed size.
    """
    if not spec.limits.gpus:
        return {"CUDA_VISIBLE_DEVICES": ""}
    named = {name: host[name] for name in _GPUS if name in host}
    return named | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
