"""The fold that keeps the journal's times: waits, runs, nodes, failures."""

from __future__ import annotations

import pytest
from event_kit import driver_started, trial_queued

from hpcscientist.records.events import DriverStopped, TrialEnded, TrialStarted
from hpcscientist.records.trial import (
    IdeaFailed,
    IdeaFailure,
    MachineFailed,
    MachineFailure,
    Outcome,
    Scored,
    Stage,
    TrialReport,
    Usage,
)
from hpcscientist.views.timeline import Timeline, TrialSpan, lanes

T0 = 1_790_000_000.0
TRIAL = "idea-0001-a1-search-0"


def queued(run: int = 1) -> object:
    return trial_queued(TRIAL, "idea-0001", Stage.SEEDS, run=run)


def started(run: int = 1, generation: int = 1) -> TrialStarted:
    return TrialStarted(trial_id=TRIAL, run=run, generation=generation)


def ended(
    outcome: Outcome, began: float = T0 + 12, over: float = T0 + 20, run: int = 1, at: float = 0.0
) -> TrialEnded:
    report = TrialReport(
        trial_id=TRIAL,
        run=run,
        outcome=outcome,
        usage=Usage(started_at=began, ended_at=over, cpu_s=7.0, peak_mb=100.0, node="n1"),
    )
    return TrialEnded(idea_id="idea-0001", report=report, at=at)


GOOD = Scored(metrics={"accuracy": 0.9, "loss": 0.1})


def folded(*events: tuple[float, object]) -> Timeline:
    timeline = Timeline("accuracy")
    for at, event in events:
        timeline.take(event, T0 + at)  # type: ignore[arg-type]
    return timeline


def only(timeline: Timeline, run: int = 1) -> TrialSpan:
    return timeline.spans[TRIAL, run]


def test_a_trial_waits_and_runs_by_its_nodes_clock() -> None:
    span = only(folded((0, queued()), (13, started()), (25, ended(GOOD))))
    assert (span.wait_s, span.run_s) == (12.0, 8.0)
    assert (span.phase, span.value, span.node, span.cpu_s) == ("scored", 0.9, "n1", 7.0)


@pytest.mark.parametrize("began", [1.0, T0 - 4000, T0 + 4000])
def test_where_a_nodes_clock_is_wrong_the_drivers_counts(began: float) -> None:
    span = only(folded((0, queued()), (13, started()), (25, ended(GOOD, began, began + 8))))
    assert (span.wait_s, span.run_s) == (13.0, 12.0)


def test_a_trial_that_nobody_saw_start_has_no_wait_below_zero() -> None:
    span = only(folded((0, queued()), (25, ended(GOOD, 1.0, 2.0))))
    assert (span.wait_s, span.run_s) == (0.0, 25.0)


def test_an_earlier_versions_end_counts_by_the_time_it_says() -> None:
    span = only(folded((0, queued()), (13, started()), (99, ended(GOOD, 1.0, 2.0, at=T0 + 25))))
    assert span.run_s == 12.0


def test_what_runs_has_no_end_and_what_waits_no_wait() -> None:
    timeline = folded((0, queued()), (13, started()))
    assert (only(timeline).phase, only(timeline).run_s, only(timeline).wait_s) == (
        "running",
        None,
        13.0,
    )
    assert timeline.open() == [only(timeline)]
    assert only(folded((0, queued()))).wait_s is None


def test_a_rerun_is_a_run_of_its_own() -> None:
    lost = MachineFailed(failure=MachineFailure.NODE, detail="n1 failed")
    timeline = folded(
        *((0, queued()), (13, started()), (25, ended(lost))),
        *((30, queued(2)), (40, started(2)), (50, ended(GOOD, T0 + 41, T0 + 49, 2))),
    )
    assert (only(timeline).phase, only(timeline).cause) == ("machine_failed", "node")
    assert (only(timeline, 2).phase, only(timeline, 2).wait_s) == ("scored", 11.0)
    assert [span.run for span in timeline.failed] == [1]
    assert timeline.open() == []


def test_a_failure_says_whose_it_is_and_why() -> None:
    failed = IdeaFailed(failure=IdeaFailure.TIMEOUT, detail="ran past 20 s")
    span = only(folded((0, queued()), (25, ended(failed))))
    assert (span.phase, span.cause, span.detail, span.value) == (
        "idea_failed",
        "timeout",
        "ran past 20 s",
        None,
    )


def test_trials_end_with_a_driver_that_takes_them_along_and_start_again() -> None:
    def stopped(lets_go: bool) -> DriverStopped:
        return DriverStopped(generation=1, reason="", failed=False, lets_go=lets_go)

    before = ((0, driver_started()), (1, queued()), (13, started()))
    assert only(folded(*before, (20, stopped(False)))).run_s == 7.0
    assert only(folded(*before, (20, stopped(True)))).phase == "running"
    again = folded(*before, (20, stopped(False)), (30, driver_started(2)), (31, started(1, 2)))
    assert (only(again).phase, only(again).ended) == ("running", None)
    assert [(s.begin - T0, s.end and s.end - T0) for s in again.drivers] == [(0, 20), (30, None)]


def test_lanes_keep_apart_what_runs_at_once_on_a_node() -> None:
    def span(node: str, start: float, end: float | None) -> TrialSpan:
        return TrialSpan(*(f"{node}{start}", 1, "i", 1, Stage.SEEDS, 0, 0.0, start, end), node=node)

    spans = [
        span("a", 0, 10),
        span("a", 1, 3),
        span("b", 2, 4),
        span("a", 3, 5),
        span("a", 4, None),
    ]
    assert lanes(spans) == [0, 1, 0, 1, 2]
