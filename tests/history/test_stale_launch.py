"""Clearing up what a launch left in which nothing was learned."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import stale_launch


def test_what_a_dying_trial_still_writes_goes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = RunPaths(tmp_path)
    paths.trials.mkdir()
    (tmp_path / "a-file").touch()
    remove, calls = shutil.rmtree, 0

    def interrupted(folder: Path, ignore_errors: bool = False) -> None:
        nonlocal calls
        calls += 1
        remove(folder)
        if calls == 1:  # as a worker that is not dead yet does
            paths.trials.mkdir()
            (paths.trials / "result.arrow").touch()

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    stale_launch.clear(paths)
    assert list(tmp_path.iterdir()) == []
    assert calls == 2
