"""People use scancel and scontrol on trials by hand."""

from __future__ import annotations

import pytest
from faults_commands import calls, counted
from faults_kit import Faults, until
from faults_trials import WHEN_TOLD, Prepare, Trials

from hpcscientist.execution.backends.slurm.watching.rounds import HOPELESS

pytestmark = pytest.mark.slurm

NAMES = ("a", "b", "c")


@pytest.fixture
def running(prepare: Prepare) -> Trials:
    trials = prepare()
    for name in NAMES:
        trials.add(name, WHEN_TOLD)
    trials.start()
    trials.await_began(*NAMES)
    return trials


def test_scancel_of_one_array_task(running: Trials) -> None:
    job = running.array_task("b")
    running.user("scancel", job)
    running.await_began("b", times=2)
    running.touch()
    running.finish()
    running.check_scored()
    assert [running.failures(name) for name in NAMES] == [[], ["cancelled"], []]
    usage = running.reports("b")[0].usage
    assert (usage.slurm_job, usage.slurm_state) == (job, "CANCELLED")


def test_scancel_of_a_whole_array(running: Trials) -> None:
    job = running.array_task("a").partition("_")[0]
    with running.driver_held():  # else it may see them end in two looks, and each has its array
        running.user("scancel", job)
        until("none is left", lambda: running.user("squeue", "--me", "--noheader") == "")
    running.await_began(*NAMES, times=2)
    running.touch()
    running.finish()
    running.check_scored()
    assert [running.failures(name) for name in NAMES] == [["cancelled"]] * 3
    assert len(running.jobs()) == 2


def test_scancel_while_it_waits(prepare: Prepare) -> None:
    trials = prepare(slurm={"at_once": 1})
    for name in NAMES:
        trials.add(name, WHEN_TOLD)
    trials.start()
    until("one began", lambda: trials.told("began"))
    (first,) = (name for name, _ in trials.told("began"))
    waiting = [name for name in NAMES if name != first]
    trials.user("scancel", *(trials.array_task(name) for name in waiting))
    # The rerun is an array of its own, which the first one's %1 does not hold back.
    until("one of them began", lambda: len(trials.told("began")) == 2)
    trials.touch()
    trials.finish()
    trials.check_scored()
    assert [len(trials.nodes(name)) for name in NAMES] == [1, 1, 1]
    assert [trials.failures(name) for name in waiting] == [["cancelled"]] * 2
    cancelled = [trials.reports(name)[0].usage for name in waiting]
    assert all(usage.started_at == usage.ended_at for usage in cancelled), trials.story()


def test_held_by_its_user(prepare: Prepare) -> None:
    trials = prepare(slurm={"extra": ["--hold"]})
    for name in NAMES:
        trials.add(name)
    trials.start()
    until("the reason is told", lambda: "queue JobHeldUser" in trials.notes())
    assert "JobHeldUser" in trials.notes()["queue JobHeldUser"]
    (job,) = trials.jobs()
    trials.user("scontrol", "release", job)
    trials.finish()
    trials.check_scored()
    assert trials.jobs() == [job]


def test_changed_to_what_can_never_run(prepare: Prepare) -> None:
    trials = prepare(slurm={"extra": ["--hold"]})
    for name in NAMES:
        trials.add(name)
    failed = trials.user("sbatch", "--parsable", "--wait", "--output=/dev/null", "--wrap=true")
    trials.start()
    (job,) = until("it is queued", trials.jobs)
    trials.user("scontrol", "update", f"JobId={job}", f"Dependency=afternotok:{failed}")
    trials.user("scontrol", "release", job)
    assert trials.end_code() == 1, trials.story()
    said = trials.said.read_text().splitlines()[-1]
    assert job in said
    assert "DependencyNeverSatisfied" in said
    until("nothing is queued", lambda: not trials.cluster.queue(trials.campaign))
    trials.write_site()
    trials.finish()
    trials.check_scored()
    assert [trials.failures(name) for name in NAMES] == [[], [], []]


def test_its_partition_is_closed_for_a_while(prepare: Prepare, faults: Faults) -> None:
    trials = prepare(slurm={"partition": "scavenge"})
    trials.add("queued")
    trials.add("refused", after="inactive")
    faults.set_partition("scavenge", "DOWN")
    trials.start(counted(trials.folder, "squeue"))
    until("it is told", lambda: "queue PartitionDown" in trials.notes())
    faults.set_partition("scavenge", "INACTIVE")
    trials.touch("inactive")
    until("it is told again", lambda: {"queue PartitionInactive", "closed"} <= set(trials.notes()))
    asked = calls(trials.folder)
    until("that is no verdict", lambda: calls(trials.folder) > asked + HOPELESS)
    assert trials.driver is not None
    assert trials.driver.poll() is None
    faults.set_partition("scavenge", "UP")
    trials.finish()
    trials.check_scored()
    assert [trials.failures(name) for name in ("queued", "refused")] == [[], []]
