"""The shipped campaign on a real cluster: the same findings as on one machine, in the container."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from slurm_kit import Cluster

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.apptainer,
    pytest.mark.e2e,
    pytest.mark.timeout(1800),  # two campaigns of a hundred trials
]

LIMIT_S = 800.0  # of one campaign: a hang, not a slow machine
IDEAS = "10"
# What depends on the machine, not on the ideas.
COSTS = ("cpu_hours", "gpu_hours")


def findings(cluster: Cluster, folder: Path, backend: str, image: Path) -> list[dict[str, Any]]:
    done = cluster.hpcsci(
        *("launch", "--ideas", IDEAS, "--backend", backend, "--image", image, "--run-dir", backend),
        cwd=folder,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    shown = cluster.hpcsci("results", backend, "--format", "json", cwd=folder)
    rows: list[dict[str, Any]] = json.loads(shown.stdout)
    return [{k: v for k, v in row.items() if k not in COSTS} for row in rows]


def ends(rows: list[dict[str, Any]]) -> dict[str, tuple[str, str | None, int]]:
    return {row["idea_id"]: (row["status"], row["reason"], row["attempts"]) for row in rows}


@pytest.fixture(scope="module")
def image(cluster: Cluster) -> Path:
    """The image on the file system that every node sees."""
    given = os.environ.get("HPCSCI_TEST_IMAGE")
    if not given:
        pytest.skip("NOT TESTED: HPCSCI_TEST_IMAGE names no image")
    return Path(given)


@pytest.fixture(scope="module")
def on_one_machine(cluster: Cluster, image: Path) -> list[dict[str, Any]]:
    return findings(cluster, cluster.make_folder(), "local", image)


@pytest.mark.parametrize("user", ["ordinary", "root"])
def test_the_same_findings_as_on_one_machine(
    cluster: Cluster, user: str, image: Path, on_one_machine: list[dict[str, Any]]
) -> None:
    if user == "root" and os.geteuid() != 0:
        pytest.skip("NOT TESTED as root: these tests are run by an ordinary user")
    who = cluster if user == "ordinary" else cluster.as_user("root")
    folder = who.make_folder()
    on_slurm = findings(who, folder, "slurm", image)
    assert ends(on_slurm) == ends(on_one_machine)  # first, for it says why rows differ
    assert on_slurm == on_one_machine
    assert len(on_one_machine) == int(IDEAS) + 1
    assert {row["status"] for row in on_one_machine} == {"baseline", "scored", "failed", "rejected"}
    # Every result names the array task that earned it, and nothing of the campaign is left.
    assert who.queue("digits") == []
    assert not (folder / "slurm" / ".submitit").exists()
