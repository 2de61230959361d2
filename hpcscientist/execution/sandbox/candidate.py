"""The candidate's command line and environment, as pure functions.

The environment is made from nothing. Of the worker's own it takes only what an interpreter
on a cluster needs to start (`_TAKEN`); keys, tokens and scheduler variables stay out.
"""

from __future__ import annotations

import os
import site
from collections.abc import Mapping
from pathlib import Path

from hpcscientist.records.trial import TrialSpec
from hpcscientist.system.processes import CAMPAIGN_MARK, TRIAL_MARK

# Environment modules make an interpreter and its shared libraries known by these two.
_TAKEN = ("PATH", "LD_LIBRARY_PATH")
# Which GPUs are the trial's, and by which order they are numbered.
_GPUS = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def arguments(spec: TrialSpec, data: str, out: str, process: str = "") -> list[str]:
    """Return what every entry point is given, contract 2."""
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
    """Return the variables that depend on the trial alone."""
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
    """Return the whole environment of a candidate that runs without a container.

    GPUs are passed on as the scheduler gave them, and only to a trial that asked for some.
    """
    made = {name: host[name] for name in _TAKEN if name in host}
    if site.ENABLE_USER_SITE:  # HOME moves, packages of `pip install --user` do not
        made["PYTHONUSERBASE"] = site.getuserbase()
    return made | gpus(spec, host) | settings(spec, str(scratch))


def gpus(spec: TrialSpec, host: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that say which GPUs a trial has; none for one that asked for none."""
    return {name: host[name] for name in _GPUS if name in host} if spec.limits.gpus else {}
