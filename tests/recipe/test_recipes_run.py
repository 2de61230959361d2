"""`recipe check --run` on shipped recipes: with NumPy alone here, the others where torch is."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from recipes_kit import PLAIN, TORCH, folder_of


def check(name: str, room: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "hpcscientist.cli.main",
        "recipe",
        "check",
        str(folder_of(name)),
    ]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(room),
        "XDG_CACHE_HOME": str(room / "cache"),
    }
    return subprocess.run(
        [*command, "--run", *more],
        env=environment,
        cwd=room,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", [name for name in PLAIN if name != "digits"])
def test_a_recipe_runs_with_numpy_alone(name: str, tmp_path: Path) -> None:
    done = check(name, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.serving
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("name", TORCH)
def test_a_recipe_runs_with_torch(name: str, tmp_path: Path) -> None:
    done = check(name, tmp_path, "--full")
    assert done.returncode == 0, done.stderr
