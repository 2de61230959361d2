"""Lost workers: an idea's own doing, or the machine's."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored

from hpcscientist.errors import BaselineFailed, MachineTrouble
from hpcscientist.history.failure_attribution import Losses
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import (
    MachineFailed,
    MachineFailure,
    Outcome,
    Scored,
    Stage,
    TrialReport,
    TrialSpec,
    Usage,
)

LOST = MachineFailed(failure=MachineFailure.LOST, detail="killed by signal 9")
SCORER = MachineFailed(failure=MachineFailure.SCORER, detail="the scorer gave no number for 'm'")
SETUP = MachineFailed(failure=MachineFailure.SETUP, detail="there is no data in /data")
WORDS = (
    "soften every edge by a wide kernel",
    "remember neighbours in memory banks",
    "double frequencies until convergence",
    "vote among seven shallow trees",
    "shrink images towards their mean",
)


def report(trial: str, outcome: Outcome = LOST, host: str = "h", began: bool = True) -> TrialReport:
    usage = Usage(started_at=1.0 if began else 2.0, ended_at=2.0, node=host)
    return TrialReport(trial_id=trial, run=1, outcome=outcome, usage=usage)


def lose(losses: Losses, *trials: str, host: str = "h") -> None:
    """Lose trials together, each of an idea of the same name."""
    for trial in trials:
        losses.started(trial)
    for trial in trials:
        losses.ended(trial, report(trial, host=host))


def blames(losses: Losses, trial: str, with_driver: bool = False, **how: bool) -> bool:
    """Whether an idea is blamed for a run of its trial that begins and is lost now."""
    losses.started(trial)
    return losses.are_its_own_doing(trial, report(trial, **how), with_driver)


def test_a_first_loss_blames_nobody() -> None:
    assert not blames(Losses(), "a")


def test_a_second_loss_with_nothing_beside_it_is_the_ideas_doing() -> None:
    losses = Losses()
    lose(losses, "a")
    assert losses.of("a") == 1
    assert blames(losses, "a")


def test_a_worker_that_had_not_begun_says_nothing() -> None:
    losses = Losses()
    lose(losses, "a")
    assert not blames(losses, "a", began=False)


def test_while_another_ideas_loss_is_open_nobody_is_blamed() -> None:
    losses = Losses()
    lose(losses, "a", "good")
    assert not blames(losses, "a")
    losses.ended("good", report("good", Scored(metrics={})))
    assert blames(losses, "a")


def test_another_hosts_losses_do_not_count() -> None:
    losses = Losses()
    lose(losses, "a")
    lose(losses, "b", host="elsewhere")
    assert blames(losses, "a")


def test_an_idea_that_has_ended_excuses_nobody() -> None:
    losses = Losses()
    lose(losses, "a", "evil")
    losses.idea_ended("evil")
    assert blames(losses, "a")


def test_who_takes_the_driver_along_is_blamed_before_others_could_run_again() -> None:
    losses = Losses()
    lose(losses, "a", "good")
    assert blames(losses, "a", with_driver=True)


def test_lost_together_with_others_nobody_is_blamed_even_with_the_driver() -> None:
    losses = Losses()
    lose(losses, "a", "good")
    losses.started("a")
    losses.started("good")
    losses.ended("good", report("good"))
    assert not losses.are_its_own_doing("a", report("a"), with_driver=True)


def test_a_row_of_ideas_that_failed_twice_is_a_pattern_until_something_ends_well() -> None:
    losses = Losses()
    for _ in range(2):
        lose(losses, "a", "b")
    lose(losses, "c")
    assert losses.pattern() == ""
    lose(losses, "c")
    assert "6 trials of 3 ideas" in losses.pattern()
    assert losses.pattern().startswith("h: ")
    assert losses.pattern().endswith(f"c (lost: {LOST.detail})")
    losses.ended("d", report("d", Scored(metrics={})))
    assert losses.pattern() == ""


def test_another_driver_gives_the_machine_another_chance() -> None:
    losses = Losses()
    for _ in range(2):
        lose(losses, "a", "b", "c")
    losses.driver_started()
    assert losses.pattern() == ""


async def test_an_idea_that_ends_its_worker_has_failed_and_is_not_fixed(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2, machine_retries=2)
    alone: list[bool] = []

    def judge(spec: TrialSpec) -> Outcome:
        if spec.idea_id == "idea-0001" and spec.stage is Stage.PILOT:
            alone.append(spec.alone)
            return LOST
        return scored(0.5)

    await bench.drive(judge, ScriptedProposer(*WORDS))
    status, reason = bench.ended()["idea-0001"]
    assert status == "failed"
    assert reason is not None
    assert reason.startswith("worker_lost: ")
    assert LOST.detail in reason
    assert bench.ended()["idea-0002"] == ("scored", None)
    assert alone == [False, True]


async def test_a_dead_machine_is_noticed_before_every_idea_has_spent_its_retries(
    tmp_path: Path,
) -> None:
    bench = CampaignBench(tmp_path, ideas=5, machine_retries=2)
    bench.config = bench.config.model_copy(update={"in_flight": 5})

    def judge(spec: TrialSpec) -> Outcome:
        return scored(0.5) if spec.idea_id == BASELINE_ID else SETUP

    said = r"trials of \d ideas.*idea-.*there is no data in /data.*resume"
    with pytest.raises(MachineTrouble, match=said):
        await bench.drive(judge, ScriptedProposer(*WORDS))
    assert bench.ended() == {}
    assert sum(t.run for t in bench.state.trials.values() if t.idea_id != BASELINE_ID) <= 10
    await bench.drive(lambda spec: scored(0.5), ScriptedProposer(*WORDS))
    assert {status for status, _ in bench.ended().values()} == {"scored"}


@pytest.mark.parametrize(
    ("ever_scored", "error"), [(False, BaselineFailed), (True, MachineTrouble)]
)
async def test_a_scorer_that_fails_everywhere_is_the_recipes_fault_until_it_has_scored(
    tmp_path: Path, ever_scored: bool, error: type[Exception]
) -> None:
    bench = CampaignBench(tmp_path, ideas=5, machine_retries=9)
    bench.config = bench.config.model_copy(update={"in_flight": 5})

    def judge(spec: TrialSpec) -> Outcome:
        return scored(0.5) if ever_scored and spec.idea_id == BASELINE_ID else SCORER

    with pytest.raises(error):
        await bench.drive(judge, ScriptedProposer(*WORDS))
