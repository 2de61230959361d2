from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slurm_kit import Cluster

sys.path.insert(0, str(Path(__file__).parent.parent / "execution"))
sys.path.insert(0, str(Path(__file__).parent.parent / "e2e"))

from faults_kit import Faults, until, why_no_faults
from faults_trials import Prepare, Trials


@pytest.fixture
def faults(cluster: Cluster) -> Iterator[Faults]:
    """Faults of the development cluster, idle at first; what is broken is fixed afterwards."""
    reason = why_no_faults()
    if reason is not None:
        pytest.skip(f"NOT TESTED: {reason}")
    made = Faults(cluster)
    until("nobody uses the cluster", made.is_idle)
    yield made
    made.heal()


@pytest.fixture
def prepare(cluster: Cluster) -> Iterator[Prepare]:
    """Make a folder for trials with a site profile, given as its sections' values."""
    made: list[Trials] = []

    def prepared(**sections: dict[str, Any]) -> Trials:
        made.append(Trials.prepare(cluster, **sections))
        return made[-1]

    yield prepared
    for trials in made:
        trials.end()
