"""Short trials are given to an array task that runs; its driver or worker is killed meanwhile."""

from __future__ import annotations

import pytest
from faults_kit import until
from faults_trials import WHEN_TOLD, Prepare, Trials

pytestmark = pytest.mark.slurm

LATER = ("b", "c", "d")


def three_given(prepare: Prepare) -> Trials:
    """Have one trial tell how long they take, one run, and three be given to its array task."""
    trials = prepare(slurm={"pack_s": 60.0, "stay_s": 300.0})
    trials.add("first")
    trials.add("a", WHEN_TOLD, after="second")
    for name in LATER:
        trials.add(name, after="third")
    trials.start()
    until("the first has ended", lambda: trials.reports("first"))
    trials.touch("second")
    trials.await_began("a")
    trials.touch("third")
    until("three were given", lambda: all(f'"{name}"' in given(trials) for name in LATER))
    return trials


def given(trials: Trials) -> str:
    """What stands in the inboxes."""
    paths = trials.bench.run.submission.glob("*/inbox-*/[0-9]*.json")
    return "".join(path.read_text() for path in paths)


def test_one_array_task_runs_them_all(prepare: Prepare) -> None:
    trials = three_given(prepare)
    trials.touch()
    trials.finish()
    trials.check_scored()
    assert len(trials.jobs()) == 2  # the first one's, and theirs
    (task,) = {trials.reports(name)[0].usage.slurm_job for name in ("a", *LATER)}
    assert task == f"{trials.jobs()[1]}_0"
    assert [name for name, _ in trials.told("began")] == ["first", "a", *LATER]


def test_the_driver_is_killed(prepare: Prepare) -> None:
    trials = three_given(prepare)
    trials.kill_driver()
    trials.start()
    trials.touch()
    trials.finish()
    trials.check_scored()
    assert len(trials.jobs()) == 2
    assert [len(trials.nodes(name)) for name in ("a", *LATER)] == [1, 1, 1, 1]


def test_the_array_task_is_killed(prepare: Prepare) -> None:
    trials = three_given(prepare)
    trials.user("scancel", "--signal=KILL", "--full", trials.array_task("a"))
    until("what it was at is told", lambda: trials.failures("a"))
    trials.touch()
    trials.finish()
    trials.check_scored()
    assert trials.failures("a") == ["cancelled"]  # so says Slurm of who scancel killed
    assert [len(trials.nodes(name)) for name in ("a", *LATER)] == [2, 1, 1, 1]
    assert [report.run for name in LATER for report in trials.reports(name)] == [1, 1, 1]
