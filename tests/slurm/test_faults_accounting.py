"""A cluster without any accounting: what became of a job is squeue's and the files' to tell."""

from __future__ import annotations

import pytest
from faults_kit import Faults, until
from faults_trials import WHEN_TOLD, Prepare

pytestmark = pytest.mark.slurm


def test_no_accounting_at_all(prepare: Prepare, faults: Faults) -> None:
    """One that finds this out, and one whose site profile says otherwise."""
    faults.configure(AccountingStorageType="accounting_storage/none")
    found_out, misled = prepare(), prepare(slurm={"accounting": "yes"})
    for trials in (found_out, misled):
        for name in ("good", "lost", "lost without a driver"):
            trials.add(name.replace(" ", "-"), WHEN_TOLD)
        trials.start()
    for trials in (found_out, misled):
        trials.await_began("good", "lost", "lost-without-a-driver")
        trials.user("scancel", trials.array_task("lost"))
        trials.await_began("lost", times=2)
        trials.kill_driver()
        trials.user("scancel", trials.array_task("lost-without-a-driver"))
        until("it has ended", lambda t=trials: len(t.cluster.queue(t.campaign)) == 2)
        trials.start()
        trials.await_began("lost-without-a-driver", times=2)
        trials.touch()
    for trials in (found_out, misled):
        trials.finish()
        trials.check_scored()
        assert trials.failures("good") == []
        assert trials.failures("lost") == ["cancelled"]
        assert trials.failures("lost-without-a-driver") == ["cancelled"]
