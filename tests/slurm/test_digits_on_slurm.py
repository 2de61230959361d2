"""The shipped campaign on a real cluster: the same findings as on one machine, in the container."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from digits_kit import ends, found, given_image
from slurm_kit import Cluster

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.apptainer,
    pytest.mark.e2e,
    pytest.mark.timeout(1800),  # two campaigns of a hundred trials
]

IDEAS = "10"


@pytest.fixture(scope="module")
def options() -> list[str | Path]:
    return ["--ideas", IDEAS, "--image", given_image()]


@pytest.fixture(scope="module")
def on_one_machine(cluster: Cluster, options: list[str | Path]) -> list[dict[str, Any]]:
    return found(cluster, cluster.make_folder(), "local", *options)


@pytest.mark.parametrize("user", ["ordinary", "root"])
def test_the_same_findings_as_on_one_machine(
    cluster: Cluster, user: str, options: list[str | Path], on_one_machine: list[dict[str, Any]]
) -> None:
    if user == "root" and os.geteuid() != 0:
        pytest.skip("NOT TESTED as root: these tests are run by an ordinary user")
    who = cluster if user == "ordinary" else cluster.as_user("root")
    folder = who.make_folder()
    on_slurm = found(who, folder, "slurm", *options)
    assert ends(on_slurm) == ends(on_one_machine)  # first, for it says why rows differ
    assert on_slurm == on_one_machine
    assert len(on_one_machine) == int(IDEAS) + 1
    assert {row["status"] for row in on_one_machine} == {"baseline", "scored", "failed", "rejected"}
    # Every result names the array task that earned it, and nothing of the campaign is left.
    assert who.queue("digits") == []
    assert not (folder / "slurm" / ".submitit").exists()
