"""One idea against the baseline, and many at once."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hpcscientist.feedback.statistics import benjamini_hochberg, compare, wilson

values = st.floats(-1e6, 1e6).map(lambda v: round(v, 6))
by_seed = st.dictionaries(st.integers(0, 20), values, min_size=2, max_size=10)
probabilities = st.lists(st.floats(0, 1), max_size=30)


@st.composite
def paired(draw: st.DrawFn) -> tuple[dict[int, float], dict[int, float]]:
    seeds = draw(st.lists(st.integers(0, 50), unique=True, min_size=2, max_size=10))
    sides = [draw(st.lists(values, min_size=len(seeds), max_size=len(seeds))) for _ in range(2)]
    return dict(zip(seeds, sides[0], strict=True)), dict(zip(seeds, sides[1], strict=True))


def apart(side: dict[int, float], by: int = 1000) -> dict[int, float]:
    return {seed + by: value for seed, value in side.items()}


def varies(xs: list[float]) -> bool:
    return max(xs) - min(xs) > 1e-9 * max(1.0, *map(abs, xs))


@given(paired())
def test_paired_is_scipy_s_paired_t_test(sides: tuple[dict[int, float], dict[int, float]]) -> None:
    baseline, idea = sides
    result = compare(baseline, idea)
    assert result.paired
    assert result.n == len(idea)
    assert result.delta == pytest.approx(result.mean - result.baseline_mean, abs=1e-6)
    differences = [idea[s] - baseline[s] for s in idea]
    size = max(map(abs, (*baseline.values(), *idea.values())))
    if max(differences) - min(differences) <= 1e-6 * size:
        return  # scipy loses its digits here
    theirs = stats.ttest_rel([idea[s] for s in idea], [baseline[s] for s in idea])
    low, high = theirs.confidence_interval(0.95)
    assert result.p_value == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-300)
    scale = max(1.0, high - low)
    assert result.ci_low == pytest.approx(low, abs=1e-6 * scale)
    assert result.ci_high == pytest.approx(high, abs=1e-6 * scale)


@given(by_seed, by_seed)
def test_without_shared_seeds_it_is_welch(
    baseline: dict[int, float], idea: dict[int, float]
) -> None:
    result = compare(baseline, apart(idea))
    assert not result.paired
    a, b = list(idea.values()), list(baseline.values())
    if not (varies(a) and varies(b)):
        return
    theirs = stats.ttest_ind(a, b, equal_var=False)
    low, high = theirs.confidence_interval(0.95)
    assert result.p_value == pytest.approx(theirs.pvalue, rel=1e-5, abs=1e-300)
    scale = max(1.0, high - low)
    assert result.ci_low == pytest.approx(low, abs=1e-5 * scale)
    assert result.ci_high == pytest.approx(high, abs=1e-5 * scale)


@given(by_seed, by_seed)
def test_interval_holds_delta_and_agrees_with_p(
    baseline: dict[int, float], idea: dict[int, float]
) -> None:
    result = compare(baseline, idea)
    assert result.p_value is not None
    assert 0.0 <= result.p_value <= 1.0
    if result.ci_low is None or result.ci_high is None:
        return
    assert result.ci_low <= result.delta <= result.ci_high
    outside = result.ci_low > 0 or result.ci_high < 0
    if abs(result.p_value - 0.05) > 1e-9:
        assert outside == (result.p_value < 0.05)


@given(by_seed, by_seed)
def test_the_order_of_seeds_is_nothing(baseline: dict[int, float], idea: dict[int, float]) -> None:
    backwards = dict(reversed(baseline.items())), dict(reversed(idea.items()))
    assert compare(*backwards) == compare(baseline, idea)
    renamed = {s: 100 - s for s in {*baseline, *idea}}
    result = compare(
        {renamed[s]: v for s, v in baseline.items()}, {renamed[s]: v for s, v in idea.items()}
    )
    assert result == compare(baseline, idea)


@given(by_seed, by_seed)
def test_negated_values_mirror_the_comparison(
    baseline: dict[int, float], idea: dict[int, float]
) -> None:
    plain = compare(baseline, idea)
    mirror = compare({s: -v for s, v in baseline.items()}, {s: -v for s, v in idea.items()})
    assert mirror.delta == -plain.delta
    assert mirror.p_value == plain.p_value
    assert mirror.ci_low == (None if plain.ci_high is None else -plain.ci_high)


def test_only_shared_seeds_are_paired() -> None:
    result = compare({0: 1.0, 1: 2.0, 2: 900.0}, {0: 1.5, 1: 2.75, 7: -900.0})
    assert result.paired
    assert (result.n, result.mean, result.baseline_mean) == (2, 2.125, 1.5)
    assert result.delta == 0.625


def test_standard_deviation_is_of_a_sample() -> None:
    # The AI Scientist gave std/n as the standard error.
    result = compare(dict(enumerate([1.0, 1.0, 1.0])), dict(enumerate([1.0, 2.0, 3.0])))
    assert result.std == 1.0
    error = 1.0 / math.sqrt(3)
    assert result.ci_high == pytest.approx(1.0 + stats.t.ppf(0.975, 2) * error)


@pytest.mark.parametrize(
    ("baseline", "idea"),
    [({0: 1.0}, {0: 2.0}), ({0: 1.0, 1: 2.0}, {0: 2.0}), ({0: 1.0}, {5: 2.0, 6: 3.0})],
)
def test_one_seed_tells_nothing(baseline: dict[int, float], idea: dict[int, float]) -> None:
    result = compare(baseline, idea)
    assert (result.ci_low, result.ci_high, result.p_value) == (None, None, None)
    assert result.std is None or result.n > 1


@pytest.mark.parametrize("shift", [0, 100])
def test_equal_values_are_no_effect(shift: int) -> None:
    side = dict.fromkeys(range(5), 0.7)
    result = compare(side, apart(side, shift))
    assert (result.delta, result.ci_low, result.ci_high, result.p_value) == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize("step", [0.05, 1 / 3])
def test_a_constant_difference_is_one_sign_flip(step: float) -> None:
    baseline = {seed: 0.1 * seed for seed in range(5)}
    result = compare(baseline, {seed: value + step for seed, value in baseline.items()})
    assert result.p_value == 2.0**-4  # also where the differences differ by rounding
    assert (result.ci_low, result.ci_high) == (None, None)


def test_constant_sides_on_other_seeds_are_one_permutation() -> None:
    result = compare(dict.fromkeys(range(3), 0.5), dict.fromkeys(range(10, 13), 0.6))
    assert result.p_value == 2 / 20
    assert result.ci_low is None


def test_a_constant_baseline_leaves_welch_defined() -> None:
    result = compare(dict.fromkeys(range(3), 0.5), {10: 0.6, 11: 0.7, 12: 0.8})
    theirs = stats.ttest_1samp([0.6, 0.7, 0.8], 0.5)
    assert result.p_value == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_what_is_no_number_is_refused(bad: float) -> None:
    good = {0: 1.0, 1: 2.0}
    with pytest.raises(ValueError, match=r"^the idea .*finite"):
        compare(good, good | {2: bad})
    with pytest.raises(ValueError, match=r"^the baseline .*finite"):
        compare(good | {2: bad}, good)


def test_an_empty_side_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        compare({}, {0: 1.0})


def brute_force(p_values: list[float]) -> list[float]:
    """Benjamini-Hochberg by its definition: the smallest q at which each is rejected."""
    m, ordered = len(p_values), sorted(p_values)
    steps = [m * p / (rank + 1) for rank, p in enumerate(ordered)]
    return [
        min(1.0, *(step for step, other in zip(steps, ordered, strict=True) if other >= p))
        for p in p_values
    ]


@given(probabilities)
def test_adjusted_p_values_are_benjamini_hochberg_s(p_values: list[float]) -> None:
    assert benjamini_hochberg(p_values) == pytest.approx(brute_force(p_values))


@given(probabilities)
def test_adjusted_p_values_are_scipy_s_to_the_last_bit(p_values: list[float]) -> None:
    assert (
        benjamini_hochberg(p_values)
        == list(stats.false_discovery_control(p_values or [1.0]))[: len(p_values)]
    )


@given(probabilities)
def test_adjusting_is_monotone_and_never_lowers(p_values: list[float]) -> None:
    adjusted = benjamini_hochberg(p_values)
    assert all(a >= p or math.isclose(a, p) for a, p in zip(adjusted, p_values, strict=True))
    in_order = [adjusted[i] for i in np.argsort(p_values)]
    assert in_order == sorted(in_order)


@given(probabilities)
def test_adjusting_ignores_order(p_values: list[float]) -> None:
    assert benjamini_hochberg(p_values[::-1]) == benjamini_hochberg(p_values)[::-1]


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_what_is_no_p_value_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="p-values"):
        benjamini_hochberg([0.5, bad])


def test_importing_feedback_is_cheap() -> None:
    code = (
        "import sys; import hpcscientist.feedback.decision, hpcscientist.feedback.summary;"
        "from hpcscientist.feedback.statistics import benjamini_hochberg as adjust;"
        "adjust([0.01, 0.2]);"
        "sys.exit('scipy' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_the_interval_of_scipy(share: tuple[int, int]) -> None:
    successes, trials = share
    low, high = wilson(successes, trials)
    theirs = stats.binomtest(successes, trials).proportion_ci(0.95, "wilson")
    assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert 0.0 <= low <= successes / trials <= high <= 1.0


@pytest.mark.parametrize("share", [(0, 0), (-1, 3), (4, 3)])
def test_what_is_no_share(share: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=f"^{share[0]} of {share[1]} .*share"):
        wilson(*share)
