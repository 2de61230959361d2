"""What the baseline's seeds tell before anything is spent on ideas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.feedback.selfcheck import NOISY, check, fix, statement, warnings
from hpcscientist.records.trial import Direction, MetricSpec

ACCURACY = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE, minimum_effect=0.005)
LOSS = MetricSpec(name="loss", direction=Direction.MINIMIZE)
# The shipped reference of digits with seeds 1 to 5.
DIGITS = {1: 0.9325, 2: 0.925, 3: 0.9325, 4: 0.9125, 5: 0.925}


def spread(deviation: float, seeds: int = 5) -> dict[int, float]:
    """Values around 0.9 whose standard deviation is exactly this."""
    shape = np.linspace(-1, 1, seeds)
    shape = shape / shape.std(ddof=1) * deviation
    return {seed: 0.9 + float(x) for seed, x in enumerate(shape)}


def test_spread_has_an_interval_that_holds_the_truth() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(1000):
        values = dict(enumerate(rng.normal(0.9, 0.01, 5).tolist()))
        found = check(values, LOSS, 0.05)
        assert found.deviation_low is not None
        assert found.deviation_high is not None
        held += found.deviation_low <= 0.01 <= found.deviation_high
    assert held / 1000 == pytest.approx(0.95, abs=0.02)


def test_a_baseline_that_cannot_show_the_minimum_effect_is_noisy() -> None:
    found = check(DIGITS, ACCURACY, 0.05)
    assert found.noisy
    assert found.smallest is not None
    assert found.smallest > NOISY * ACCURACY.minimum_effect
    assert found.at_minimum is not None
    assert found.at_minimum < 0.35
    told = warnings(found)["noisy baseline"]
    assert f" {found.smallest / ACCURACY.minimum_effect:.1f} times" in told
    assert f"{found.enough} seeds" in told
    assert fix(found) in told


def test_enough_seeds_fix_it() -> None:
    found = check(DIGITS, ACCURACY, 0.05)
    assert found.enough is not None
    assert not check(DIGITS, ACCURACY, 0.05, seeds=found.enough).noisy
    assert check(DIGITS, ACCURACY, 0.05, seeds=found.enough - 1).noisy


def test_a_steady_baseline_passes_without_a_word() -> None:
    found = check(spread(0.001), ACCURACY, 0.05, published=0.9)
    assert not found.noisy
    assert warnings(found) == {}
    assert "5 seeds find" in statement(found)


def test_pairs_that_are_known_to_agree_make_up_for_the_spread() -> None:
    found = check(DIGITS, ACCURACY, 0.05, differences=0.001)
    assert found.paired is not None
    assert found.smallest is not None
    assert found.paired < found.smallest
    assert not found.noisy


def test_without_a_minimum_effect_nothing_is_noisy() -> None:
    found = check(DIGITS, LOSS, 0.05)
    assert not found.noisy
    assert (found.at_minimum, found.enough) == (None, None)
    assert warnings(found) == {}
    assert "minimum" not in statement(found)


def test_seeds_that_change_nothing_are_told() -> None:
    found = check(dict.fromkeys(range(5), 0.9), ACCURACY, 0.05, published=0.9)
    assert found.constant
    assert not found.noisy
    told = warnings(found)
    assert list(told) == ["constant baseline"]
    assert "p = 0.062 at best" in told["constant baseline"]
    assert "every seed" in statement(found)


@pytest.mark.parametrize(
    ("published", "away"),
    [
        (0.9, False),
        (0.9 + 0.004, False),  # within the minimum effect
        (0.9 + 0.02, True),
        (0.9 - 0.02, True),
    ],
)
def test_distance_from_the_published_value(published: float, away: bool) -> None:
    found = check(spread(0.001), ACCURACY, 0.05, published=published)
    assert found.distance is not None
    assert found.distance.away is away
    assert found.distance.difference == pytest.approx(0.9 - published)
    assert found.distance.deviations == pytest.approx((0.9 - published) / 0.001)
    assert ("unlike published" in warnings(found)) is away


def test_a_distance_that_the_seeds_explain_is_no_warning() -> None:
    found = check(spread(0.03), ACCURACY, 0.05, published=0.92)
    assert found.distance is not None
    assert found.distance.low is not None
    assert found.distance.low < -0.02 < (found.distance.high or 0.0)
    assert not found.distance.away


def test_one_seed_is_no_baseline() -> None:
    with pytest.raises(ValueError, match="one seed"):
        check({1: 0.9}, ACCURACY, 0.05)


@settings(max_examples=50)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=6), st.floats(-1e3, 1e3))
def test_any_values_are_told_in_one_line(values: list[float], published: float) -> None:
    found = check(dict(enumerate(values)), ACCURACY, 0.05, published=published)
    for line in (statement(found), *warnings(found).values()):
        assert line
        assert "\n" not in line
        assert "nan" not in line
        assert "None" not in line
    if found.noisy:
        assert found.enough is None or found.enough > len(values)
