"""Slurm's own daemons stop: nothing is believed lost for that, and nothing is submitted twice."""

from __future__ import annotations

import pytest
from faults_commands import calls, counted
from faults_kit import Faults, until
from faults_trials import WHEN_TOLD, Prepare

pytestmark = pytest.mark.slurm


def test_controller_down_while_submitting_and_polling(prepare: Prepare, faults: Faults) -> None:
    trials = prepare(watch={"command_s": 5.0})
    trials.add("before", WHEN_TOLD)
    trials.add("meanwhile", WHEN_TOLD)
    trials.add("after", after="submit")
    trials.start()
    trials.await_began("before", "meanwhile")
    faults.stop("controller")
    trials.touch("submit")
    until("it is noticed", lambda: "silent" in trials.notes())
    # A trial that ends is seen to have ended all the same, by its files.
    trials.touch()
    until("ends are seen", lambda: trials.reports("before") and trials.reports("meanwhile"))
    assert not trials.nodes("after")
    faults.start("controller")
    trials.finish()
    trials.check_scored()
    assert [len(trials.reports(spec.trial_id)) for spec in trials.specs] == [1, 1, 1]


def test_controller_down_from_the_start(prepare: Prepare, faults: Faults) -> None:
    trials = prepare(watch={"command_s": 5.0})
    trials.add("a")
    faults.stop("controller")
    trials.start()
    until("it is noticed", lambda: "silent" in trials.notes())
    faults.start("controller")
    trials.finish()
    trials.check_scored()


def test_accounting_down_all_the_time(prepare: Prepare, faults: Faults) -> None:
    faults.stop("accounting")
    trials = prepare()
    trials.add("good", WHEN_TOLD)
    trials.add("lost", WHEN_TOLD)
    trials.start()
    trials.await_began("good", "lost")
    trials.user("scancel", trials.array_task("lost"))
    trials.await_began("lost", times=2)
    trials.touch()
    trials.finish()
    trials.check_scored()
    assert trials.failures("lost") == ["cancelled"]


def test_records_purged_while_no_driver_ran(prepare: Prepare, faults: Faults) -> None:
    """One with accounting, which is down at first, and one that has none to ask."""
    faults.configure(MinJobAge="2")
    accounted, unknown = prepare(), prepare(slurm={"accounting": "no"})
    for trials in (accounted, unknown):
        trials.add("good", WHEN_TOLD)
        trials.add("lost", WHEN_TOLD)
        trials.start()
    for trials in (accounted, unknown):
        trials.await_began("good", "lost")
        trials.kill_driver()
        trials.user("scancel", trials.array_task("lost"))
    for trials in (accounted, unknown):
        queue = trials.cluster.queue
        until("it has ended", lambda t=trials, q=queue: len(q(t.campaign)) == 1)
        trials.touch()
    for trials in (accounted, unknown):
        until("the records are purged", lambda t=trials: not t.jobs())
    faults.stop("accounting")
    accounted.start(counted(accounted.folder, "sacct"))
    unknown.finish()
    until("sacct was asked in vain", lambda: calls(accounted.folder) >= 2)
    assert not accounted.reports("lost")
    faults.start("accounting")
    accounted.finish()
    for trials in (accounted, unknown):
        trials.check_scored()
        assert len(trials.nodes("good")) == 1
        assert trials.reports("good")[0].run == 1
    assert accounted.failures("lost") == ["cancelled"]
    assert unknown.failures("lost") == ["lost"]
    assert str(accounted.reports("lost")[0].usage.slurm_state).startswith("CANCELLED by")


def test_a_result_that_the_file_system_hides_for_a_while(prepare: Prepare) -> None:
    trials = prepare(watch={"visible_s": 60.0})
    trials.add("a", WHEN_TOLD)
    trials.start()
    trials.await_began("a")
    trials.kill_driver()
    trials.touch()
    until("it has ended", lambda: not trials.cluster.queue(trials.campaign))
    result = trials.bench.run.trial("a").result
    hidden = result.rename(trials.folder / "hidden")
    trials.start(counted(trials.folder, "squeue"))
    until("Slurm has told that it ended well", lambda: calls(trials.folder) >= 3)
    assert trials.reports("a") == []
    hidden.rename(result)
    trials.finish()
    trials.check_scored()
    assert len(trials.nodes("a")) == 1
    assert trials.failures("a") == []
