"""The driver is killed, or does not hear what Slurm said: every trial is run once."""

from __future__ import annotations

import re

import pytest
from faults_commands import AFTER_SBATCH, BEFORE_SBATCH, KILLED, NO_ANSWER, broken_sbatch
from faults_kit import until
from faults_trials import WHEN_TOLD, Prepare

pytestmark = pytest.mark.slurm

NAMES = ("a", "b", "c")


@pytest.mark.parametrize("ended", [False, True], ids=["still running", "ended meanwhile"])
def test_killed_between_sbatch_and_its_record(prepare: Prepare, ended: bool) -> None:
    trials = prepare()
    for name in NAMES:
        trials.add(name, WHEN_TOLD)
    trials.start(broken_sbatch(trials.folder, AFTER_SBATCH))
    assert trials.end_code() in KILLED, trials.story()
    assert not list(trials.bench.run.submission.glob("*/submitted.json"))
    trials.await_began(*NAMES)
    if ended:
        trials.touch()
        until("the orphan has ended", lambda: not trials.cluster.queue(trials.campaign))
        trials.finish()
    else:
        trials.start()
        until("it is adopted", lambda: list(trials.bench.run.submission.glob("*/submitted.json")))
        trials.touch()
        trials.finish()
    trials.check_scored()
    assert len(trials.jobs()) == 1
    assert [len(trials.nodes(name)) for name in NAMES] == [1, 1, 1]


def test_killed_before_sbatch(prepare: Prepare) -> None:
    trials = prepare()
    for name in NAMES:
        trials.add(name)
    trials.start(broken_sbatch(trials.folder, BEFORE_SBATCH))
    assert trials.end_code() in KILLED, trials.story()
    assert list(trials.bench.run.submission.glob("*/batch.json"))
    assert trials.jobs() == []
    trials.finish()
    trials.check_scored()
    assert len(trials.jobs()) == 1
    assert [report.run for name in NAMES for report in trials.reports(name)] == [1, 1, 1]


def test_sbatch_whose_answer_never_comes(prepare: Prepare) -> None:
    trials = prepare(watch={"command_s": 3.0})
    for name in NAMES:
        trials.add(name)
    trials.finish(broken_sbatch(trials.folder, NO_ANSWER))
    trials.check_scored()
    assert len(trials.jobs()) == 1
    assert re.search(r"\bsbatch\b.* 3 s\b", trials.notes()["silent"])


def test_killed_while_trials_run_and_wait(prepare: Prepare) -> None:
    # One runs, the others wait in the queue.
    trials = prepare(slurm={"at_once": 1})
    for name in NAMES:
        trials.add(name, WHEN_TOLD)
    trials.start()
    until("one began", lambda: trials.told("began"))
    trials.kill_driver()
    trials.start()
    trials.touch()
    trials.finish()
    trials.check_scored()
    assert len(trials.jobs()) == 1
    assert [len(trials.nodes(name)) for name in NAMES] == [1, 1, 1]
