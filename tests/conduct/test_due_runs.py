"""When one more run of a trial is due that the machine failed."""

from __future__ import annotations

import pytest
from event_kit import driver_started, trial_queued
from simulated import Shape, rules_of

from hpcscientist.conduct.actions import RunTrial
from hpcscientist.conduct.agenda import Agenda
from hpcscientist.history.state import fold
from hpcscientist.records.events import TrialEnded, TrialStarted
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import (
    MachineFailed,
    MachineFailure,
    Stage,
    TrialReport,
    Usage,
    trial_name,
)

NAME = trial_name(BASELINE_ID, 1, Stage.BASELINE, 0)
ENDED = 1000.0


@pytest.mark.parametrize(
    ("now", "run", "wake_at"),
    [
        (ENDED, None, ENDED + 2),
        (ENDED + 1.9, None, ENDED + 2),
        (ENDED + 2, 2, None),
        # An end that is yet to come: the clock was put back, or is another host's.
        (ENDED - 3600, 2, None),
    ],
)
def test_a_pause_is_waited_for_and_no_clock_that_was_put_back(
    now: float, run: int | None, wake_at: float | None
) -> None:
    failed = MachineFailed(failure=MachineFailure.NODE, detail="gone")
    usage = Usage(started_at=1.0, ended_at=2.0)
    report = TrialReport(trial_id=NAME, run=1, outcome=failed, usage=usage)
    state = fold(
        [
            driver_started(1),
            trial_queued(NAME, BASELINE_ID, Stage.BASELINE),
            TrialStarted(trial_id=NAME, run=1, generation=1),
            TrialEnded(idea_id=BASELINE_ID, report=report, at=ENDED),
        ]
    )
    wanted = Agenda(state, rules_of(Shape()), now)
    assert wanted.rules.pause_s == 2
    wanted.run(BASELINE_ID, 1, Stage.BASELINE, 0)
    assert [a.run for a in wanted.found if isinstance(a, RunTrial)] == (
        [] if run is None else [run]
    )
    assert wanted.wake_at == wake_at
