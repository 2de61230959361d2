"""Runs whole campaigns for a benchmark, each in its own folder, and resumes them.

A campaign is launched as by `hpcsci launch`. The same benchmark in the same folder resumes: it
reads campaigns that have ended, and continues one that was interrupted.
"""

from __future__ import annotations

import os
from pathlib import Path

from hpcscientist.config import model_size
from hpcscientist.config.layers import KEY_VARIABLES
from hpcscientist.config.settings import Settings
from hpcscientist.errors import UsageError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.launching import create_run_dir, launch
from hpcscientist.launching.drive import Observer, drive
from hpcscientist.launching.launch_plan import check
from hpcscientist.ports import Tell

# Settings that do not affect a campaign's results: its location and how it is driven.
_FREE = {"run_dir", "allow_unsandboxed", "client", "local", "paths"}


def run(
    name: str,
    settings: Settings,
    folder: Path,
    tell: Tell,
    observe: Observer = lambda event, state: None,
) -> RunPaths:
    """Run the campaign of `settings` in `folder`/`name` to its end and return its run directory.

    `observe` is called with every event as it is recorded. Raises UsageError if the folder holds a
    campaign with other settings, and what a launch or a driver raises.
    """
    paths, working = RunPaths(folder / name), Path.cwd()
    if settings.nodes:
        raise UsageError(
            "a benchmark drives its campaigns itself; leave nodes out of the configuration, and "
            "give the command in a job"
        )
    settings = settings.model_copy(update={"run_dir": str(paths.root)})
    if paths.campaign.exists():
        _check_same(launch.settle(settings, working), paths)
    else:
        checked = launch.check(settings, working)
        check(checked)
        create_run_dir.furnish(checked, create_run_dir.claim(checked))
    tell(f"{name}: running, see `hpcsci status {paths.root}`")
    keys = {name: os.environ[name] for name in KEY_VARIABLES if name in os.environ}
    try:
        drive(paths, observe)
    finally:
        os.environ.update(keys)  # the driver removes them, but the next campaign needs them
    return paths


def _check_same(settings: Settings, paths: RunPaths) -> None:
    config = frozen.read(paths)
    before = config.settings
    settings, _ = model_size.fitted(settings, config.role_specs)  # as the launch did
    for key in type(settings).model_fields:
        if key not in _FREE and getattr(before, key) != getattr(settings, key):
            raise UsageError(
                f"{paths.root}: was begun with another {key}; give it again, or another --dir"
            )
