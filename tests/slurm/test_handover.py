"""Short trials are given to an array task that runs; its driver or worker is killed meanwhile."""

from __future__ import annotations

import pytest
from faults_kit import until
from faults_trials import Prepare, Trials

from hpcscientist.execution.backends.slurm.inbox import Message

pytestmark = pytest.mark.slurm


def waits_for(name: str) -> str:
    return f"await_file(ROOT / '{name}'); predict()"


def one_given(prepare: Prepare) -> Trials:
    """Have a trial tell how long they take, a second one run, a third be given to its array task.

    The task is given no more than it does within seconds: the first must be shorter than three.
    """
    trials = prepare(slurm={"pack_s": 60.0})
    trials.add("first")
    trials.add("a", waits_for("go"), after="second")
    trials.add("b", waits_for("go on"), after="third")
    trials.add("c", after="fourth")
    trials.start()
    until("the first has ended", lambda: trials.reports("first"))
    trials.touch("second")
    trials.await_began("a")
    trials.touch("third")
    until("it was given", lambda: "b" in given(trials), limit_s=60)
    return trials


def given(trials: Trials) -> list[str]:
    """The names of the trials that inboxes hold."""
    messages = sorted(trials.bench.run.submission.glob("*/inbox-*/[0-9]*.json"))
    found = (Message.model_validate_json(path.read_bytes()) for path in messages)
    return [run.trial_id for message in found for run in message.runs]


def test_an_array_task_runs_one_after_another(prepare: Prepare) -> None:
    trials = one_given(prepare)
    trials.touch("go")
    trials.await_began("b")
    trials.touch("fourth")
    until("one more was given", lambda: given(trials) == ["b", "c"], limit_s=60)
    trials.touch("go on")
    trials.finish()
    trials.check_scored()
    assert len(trials.jobs()) == 2  # the first one's, and theirs
    tasks = {trials.reports(name)[0].usage.slurm_job for name in "abc"}
    assert tasks == {f"{trials.jobs()[1]}_0"}
    assert [name for name, _ in trials.told("began")] == ["first", "a", "b", "c"]


def test_the_driver_is_killed(prepare: Prepare) -> None:
    trials = one_given(prepare)
    for name in ("fourth", "go on"):
        trials.touch(name)
    trials.kill_driver()
    trials.start()
    trials.touch("go")
    trials.finish()
    trials.check_scored()
    assert [len(trials.nodes(name)) for name in "ab"] == [1, 1]
    assert len({trials.reports(name)[0].usage.slurm_job for name in "ab"}) == 1


def test_the_array_task_is_killed(prepare: Prepare) -> None:
    trials = one_given(prepare)
    trials.user("scancel", "--signal=KILL", "--full", trials.array_task("a"))
    until("the one under way is told", lambda: trials.failures("a"))
    for name in ("go", "go on", "fourth"):
        trials.touch(name)
    trials.finish()
    trials.check_scored()
    assert trials.failures("a") == ["lost"]
    assert [len(trials.nodes(name)) for name in "ab"] == [2, 1]
    assert [report.run for report in trials.reports("b")] == [1]
