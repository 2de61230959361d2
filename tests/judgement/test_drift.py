"""The baseline's first seed, run again and again."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hpcscientist.judgement.baseline_drift import BaselineRerun, drift, listing
from hpcscientist.records.trial import Direction, MetricSpec

METRIC = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE, minimum_effect=0.005)


def runs(*values: float, node: str = "n1") -> list[BaselineRerun]:
    return [
        BaselineRerun(number=number, value=value, node=f"{node}-{number}")
        for number, value in enumerate(values)
    ]


def told(*values: float, deviation: float = 0.01) -> dict[str, str]:
    return drift(runs(*values), METRIC, deviation, 5)


def test_a_deterministic_reference_gives_the_same() -> None:
    assert told(0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9) == {}
    assert listing(runs(0.9, 0.9), METRIC) == ""


def test_the_smallest_difference_is_told_with_both_nodes() -> None:
    found = told(0.9, 0.9, 0.8999)
    assert list(found) == ["drift unequal"]
    both = r"accuracy 0\.9 on n1-0 .*, accuracy 0\.8999 on n1-2"
    assert re.search(both, found["drift unequal"])
    assert "0.8999 on n1-2" in listing(runs(0.9, 0.9, 0.8999), METRIC)


def test_other_predictions_of_the_same_value_are_a_difference() -> None:
    first, again = (BaselineRerun(number=n, value=0.9, predictions=p) for n, p in enumerate("ab"))
    assert list(drift([first, again], METRIC, 0.01, 5)) == ["drift unequal"]
    assert drift([first, first.model_copy(update={"number": 1})], METRIC, 0.01, 5) == {}


def test_beyond_the_spread_of_the_seeds_it_has_drifted() -> None:
    found = told(0.9, 0.9, 0.7)
    assert list(found) == ["drift unequal", "drift beyond/2", "drift mean"]
    assert "0.7 on n1-2" in found["drift beyond/2"]


def test_many_small_shifts_add_up() -> None:
    found = told(0.9, *[0.9 + 0.052] * 5)
    assert "drift beyond/1" not in found
    assert "drift mean" in found


def test_a_trend_is_told_though_no_rerun_is_far_off() -> None:
    found = told(0.9, 0.899, 0.898, 0.897, 0.896, 0.895, 0.894)
    assert "to 0.894 in 6 reruns" in found["drift trend"]
    assert not any(name.startswith("drift beyond") for name in found)


def test_a_trend_is_looked_for_at_doubled_numbers_of_reruns_with_the_level_split() -> None:
    falling = [0.9 - i / 1e4 for i in range(13)]
    assert "drift trend" not in told(*falling[:6])
    unclear = [0.9, 0.8999, 0.9001, 0.8997, 0.9, 0.8998, 0.8996]
    for reruns in range(7, 12):  # no look between the sixth and the twelfth
        assert "drift trend" not in told(*unclear, *[0.899 - i / 1e4 for i in range(reruns - 6)])
    later = told(*unclear, *[0.899 - i / 1e4 for i in range(6)])
    assert "in 12 reruns" in later["drift trend"]
    assert re.search(r"level .* 0\.0025\)", later["drift trend"])


@pytest.mark.full
def test_looks_for_a_trend_together_keep_the_level() -> None:
    draw, alarms, campaigns = np.random.default_rng(5), 0, 1000
    for _ in range(campaigns):
        alarms += "drift trend" in told(*draw.normal(0.9, 0.01, 49), deviation=1.0)
    assert alarms <= 20  # 10 are expected at most, and three standard errors


def test_without_any_spread_every_difference_is_beyond() -> None:
    assert "drift beyond/1" in told(0.9, 0.9001, deviation=0.0)


def test_a_reference_that_fails_when_run_again_is_told() -> None:
    late = BaselineRerun(number=1, value=None, node="n7", failure="timeout: ran past 20 s")
    found = drift([*runs(0.9), late], METRIC, 0.01, 5)
    assert list(found) == ["drift failed/1"]
    assert "on n7: timeout" in found["drift failed/1"]
    assert "failed on n7" in listing([*runs(0.9), late], METRIC)


@pytest.mark.full
def test_looks_at_the_mean_together_keep_the_level() -> None:
    rng, alarms, campaigns = np.random.default_rng(5), 0, 300
    for _ in range(campaigns):
        baseline = rng.normal(0.9, 0.01, 5)
        values = [float(baseline[0]), *rng.normal(0.9, 0.01, 30).tolist()]
        deviation = float(baseline.std(ddof=1))
        looks = (drift(runs(*values[:n]), METRIC, deviation, 5) for n in range(3, 32))
        alarms += any("drift mean" in found for found in looks)
    assert alarms <= 3  # as many as at the level of a single look


def test_order_of_arrival_does_not_matter() -> None:
    values = runs(0.9, 0.8, 0.91, 0.7)
    assert drift(values, METRIC, 0.01, 5) == drift(values[::-1], METRIC, 0.01, 5)


@pytest.mark.parametrize("reruns", [1, 5, 20])
def test_noise_as_large_as_that_between_seeds_is_seldom_called_drift(reruns: int) -> None:
    """Where the seed explains nothing at all, the limits have their nominal level, or less."""
    rng, alarms = np.random.default_rng(5), 0
    for _ in range(400):
        baseline = rng.normal(0.9, 0.01, 5)
        values = [float(baseline[0]), *rng.normal(0.9, 0.01, reruns).tolist()]
        found = drift(runs(*values), METRIC, float(baseline.std(ddof=1)), 5)
        alarms += (
            "drift mean" in found or "drift trend" in found or f"drift beyond/{reruns}" in found
        )
    assert alarms / 400 <= 0.04  # three tests at 0.01
