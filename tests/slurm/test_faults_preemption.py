"""Trials are preempted, each way that Slurm knows; they are run again, and nobody is blamed."""

from __future__ import annotations

from typing import Any

import pytest
from faults_trials import WHEN_TOLD, Prepare

pytestmark = pytest.mark.slurm

WAYS = {
    "requeued": {"partition": "batch"},
    "cancelled": {"partition": "scavenge"},
    "cancelled, not to be requeued": {"partition": "batch", "requeue": False},
}


@pytest.mark.parametrize("site", WAYS.values(), ids=WAYS)
def test_preempted(prepare: Prepare, site: dict[str, Any]) -> None:
    trials = prepare(slurm=site)
    trials.add("a", WHEN_TOLD, cpus=2)
    trials.start()
    trials.await_began("a")
    trials.user(
        *("sbatch", "--partition=urgent", f"--nodelist={trials.nodes('a')[0]}", "--exclusive"),
        *("--output=/dev/null", f"--job-name={trials.campaign}", "--wrap=true"),
    )
    trials.await_began("a", times=2)
    trials.touch()
    trials.finish()
    trials.check_scored()
    assert [report.run for report in trials.reports("a")] == [1]
    assert len(trials.jobs()) == (1 if site == WAYS["requeued"] else 2)
