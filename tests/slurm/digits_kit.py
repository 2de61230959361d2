"""The shipped campaign of an ordinary user in the container, and what it found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from slurm_kit import Cluster

LIMIT_S = 800.0  # of one campaign: a hang, not a slow machine
# What depends on the machine, not on the ideas.
COSTS = ("cpu_hours", "gpu_hours")


def given_image() -> Path:
    """The image on the file system that every node sees; skips the test where there is none."""
    given = os.environ.get("HPCSCI_TEST_IMAGE")
    if not given:
        pytest.skip("NOT TESTED: HPCSCI_TEST_IMAGE names no image")
    return Path(given)


def launching(backend: str, *options: str | Path) -> list[str | Path]:
    """What launches a campaign whose run directory is named like its backend."""
    return ["launch", "--backend", backend, "--run-dir", backend, *options]


def findings(cluster: Cluster, folder: Path, backend: str) -> list[dict[str, Any]]:
    """What a campaign found, without what it cost."""
    shown = cluster.hpcsci("results", backend, "--format", "json", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    rows: list[dict[str, Any]] = json.loads(shown.stdout)
    return [{k: v for k, v in row.items() if k not in COSTS} for row in rows]


def found(
    cluster: Cluster, folder: Path, backend: str, *options: str | Path
) -> list[dict[str, Any]]:
    """Run a campaign to its end, and return what it found."""
    done = cluster.hpcsci(*launching(backend, *options), cwd=folder, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return findings(cluster, folder, backend)


def ends(rows: list[dict[str, Any]]) -> dict[str, tuple[str, str | None, int]]:
    """What became of each idea."""
    return {row["idea_id"]: (row["status"], row["reason"], row["attempts"]) for row in rows}
