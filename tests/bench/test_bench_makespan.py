"""The benchmarks run and print the contract's fields; what they measure is never asserted."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from benchmarks import makespan
from benchmarks.makespan import Script

from hpcscientist.bench.figure import Figure, as_json
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.records.events import TrialQueued
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import Stage

FIELDS = ["name", "value", "unit", "compared_with", "ratio", "target", "spread", "runs"]


def check(figures: list[Figure], count: int) -> None:
    rows: list[dict[str, Any]] = json.loads(as_json(figures))
    assert len(rows) == count
    for row in rows:
        assert list(row) == FIELDS
        assert math.isfinite(row["value"])


@pytest.mark.full
def test_makespan_runs_the_real_loop() -> None:
    """What the model and the trials take is slept, so no campaign is faster than its bound."""
    script = Script(latency_s=0.01, pilot_s=0.01, full_s=0.02, slots=4)
    figures = makespan.figures({3: 1, 4: 2}, script)
    check(figures, 2)
    for figure, ideas in zip(figures, (3, 4), strict=True):
        assert f"{ideas} ideas" in figure.name
        assert figure.ratio is not None
        assert figure.ratio >= 1
        assert figure.value >= 2 * script.latency_s + script.pilot_s + script.full_s


def test_makespan_bound_is_path_or_work() -> None:
    script = Script(latency_s=1.0, pilot_s=1.0, full_s=2.0, slots=4)
    assert script.bound(ideas=0, seeds=1, concurrency=1) == 2 * 1.0 + 1.0 + 2.0
    many = 100 * (2 * 2.0 + 1.0) / 4  # of which none begins before it was thought of
    assert script.bound(ideas=100, seeds=2, concurrency=99) == 2 * 1.0 + many
    assert (
        script.bound(ideas=100, seeds=2, concurrency=99, reruns=6) == 2 * 1.0 + many + 6 * 2.0 / 4
    )
    # With eight seeds the reference alone fills more slots than there are until then; and no trial
    # is cut so that all slots end together.
    assert script.bound(ideas=1, seeds=8, concurrency=99) == math.ceil(2 * (8 * 2.0 + 1.0) / 4)
    alike = Script(latency_s=0.25, pilot_s=2.0, full_s=2.0, slots=4)
    assert alike.bound(ideas=3, seeds=2, concurrency=99) == 2 * 0.25 + 3 * 2.0  # 9 trials: 3 waves
    assert script.bound(ideas=100, seeds=1, concurrency=1) == 200.0


@pytest.mark.parametrize(("pilot_s", "full_s"), [(0.0, 0.0), (0.0004, 0.5), (0.25, 0.2501)])
def test_makespan_refuses_lengths_that_its_bound_cannot_reckon_with(
    pilot_s: float, full_s: float
) -> None:
    with pytest.raises(ValueError, match="whole milliseconds"):
        Script(pilot_s=pilot_s, full_s=full_s)


@pytest.mark.parametrize("ideas", [3, pytest.param(24, marks=pytest.mark.full)])
async def test_makespan_bound_counts_every_trial(ideas: int, tmp_path: Path) -> None:
    """With one slot, and nothing that takes time but full trials, it is what they take."""
    script = Script(latency_s=0.0, pilot_s=0.0, full_s=0.01, slots=1)
    _, bound = await makespan.campaign(tmp_path, ideas, script)
    events = journal.events(RunPaths(tmp_path / "run").journal)
    queued = [e for e in events if isinstance(e, TrialQueued) and e.stage is not Stage.PILOT]
    assert any(e.idea_id == BASELINE_ID and e.attempt > BASELINE_ATTEMPT for e in queued) == (
        ideas >= 10
    )
    assert bound == pytest.approx(script.full_s * len(queued))
