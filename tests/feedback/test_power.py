"""How small an effect a comparison can find, held against simulated comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import nctdtr, stdtrit

from hpcscientist.feedback.selfcheck import pairs_needed, power_of, smallest_effect


@pytest.mark.parametrize("pairs", [2, 3, 5, 10, 40])
@pytest.mark.parametrize("minimum", [0.0, 0.5])
def test_the_smallest_effect_is_found_four_times_in_five(pairs: int, minimum: float) -> None:
    deviation, level = 0.02, 0.05
    effect = smallest_effect(deviation, pairs, level, minimum * deviation)
    drawn = np.random.default_rng(7).normal(effect, deviation, (40_000, pairs))
    mean, error = drawn.mean(axis=1), drawn.std(axis=1, ddof=1) / pairs**0.5
    found = (mean / error > stdtrit(pairs - 1, 1 - level)) & (mean > minimum * deviation)
    assert found.mean() == pytest.approx(0.8, abs=0.01)
    assert power_of(effect, deviation, pairs, level, minimum * deviation) == pytest.approx(0.8)


@pytest.mark.parametrize("effect", [0.0, 0.2, 0.5, 1.0])
def test_it_is_the_noncentral_t_distribution_where_scipy_has_one(effect: float) -> None:
    for pairs in (5, 20, 60):
        limit = stdtrit(pairs - 1, 0.95)
        known = 1 - nctdtr(pairs - 1, effect * pairs**0.5, limit)
        assert power_of(effect, 1.0, pairs, 0.05) == pytest.approx(known, abs=2e-4)


@settings(max_examples=40)
@given(pairs=st.integers(2, 60), scale=st.floats(1e-6, 1e6), level=st.sampled_from([0.01, 0.05]))
def test_more_pairs_find_smaller_effects_in_any_unit(
    pairs: int, scale: float, level: float
) -> None:
    effect = smallest_effect(scale, pairs, level)
    assert effect == pytest.approx(scale * smallest_effect(1.0, pairs, level))
    assert smallest_effect(scale, pairs + 1, level) < effect
    assert smallest_effect(scale, pairs, level / 2) > effect
    needed = pairs_needed(effect * 1.0001, scale, level, 0.0, 1000)
    assert needed == pairs


def test_what_needs_more_seeds_than_there_are() -> None:
    assert pairs_needed(0.001, 1.0, 0.05, 0.0, 1000) is None


@pytest.mark.parametrize(("deviation", "pairs"), [(0.0, 5), (1.0, 1)])
def test_without_spread_there_is_no_power(deviation: float, pairs: int) -> None:
    with pytest.raises(ValueError, match="two pairs"):
        smallest_effect(deviation, pairs, 0.05)
