"""Testing in order: by the formula of the paper, and by what it promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.feedback import statistics
from hpcscientist.feedback.statistics import LAMBDA, TAU, addis, gamma

Q = 0.05
p_value = st.floats(0, 1) | st.floats(0, 0.01) | st.sampled_from([0.0, LAMBDA, TAU, 1.0])
sequences = st.lists(p_value, max_size=40)
rates = st.sampled_from([0.01, 0.05, 0.2, 0.6])


def levels(p_values: list[float], q: float, lam: float = LAMBDA, tau: float = TAU) -> list[float]:
    """ADDIS as it is written down: Tian & Ramdas 2019, algorithm 1, with W0 = q / 2."""
    found: list[float] = []
    rejected: list[int] = []  # the times of rejections
    for t in range(len(p_values)):
        kept = sum(p <= tau for p in p_values[:t])
        since = kept - sum(p <= lam for p in p_values[:t])
        total = q / 2 * gamma(since + 1)
        for j, time in enumerate(rejected):
            kept_then = sum(p <= tau for p in p_values[: time + 1])
            since = kept - kept_then - sum(p <= lam for p in p_values[time + 1 : t])
            total += (q / 2 if j == 0 else q) * gamma(since + 1)
        found.append(min(lam, (tau - lam) * total))
        if p_values[t] <= found[t]:
            rejected.append(t)
    return found


def test_shares_sum_to_one() -> None:
    # What lies behind the first n is bounded by integrals of j^-1.6.
    n = 100_000
    told = sum(gamma(j) for j in range(1, n + 1))
    rest = n**-0.6 / 0.6 * gamma(1)
    assert told + rest == pytest.approx(1, abs=1e-6)


def test_levels_by_hand() -> None:
    first = gamma(1)
    assert first == pytest.approx(0.437490, abs=1e-6)
    # 0.3 is costly, 0.9 discarded, 0.05 a candidate, 0.0001 rejected, 0.2 costly, 0.0 rejected.
    p_values = [0.3, 0.9, 0.05, 0.0001, 0.2, 0.0]
    second = first / 2**1.6
    expected = [
        0.4 * 0.025 * first,
        0.4 * 0.025 * second,
        0.4 * 0.025 * second,
        0.4 * 0.025 * second,
        0.4 * (0.025 * second + 0.025 * first),
        0.4 * (0.025 * first / 3**1.6 + 0.025 * second),
    ]
    assert levels(p_values, Q) == pytest.approx(expected)
    found = addis(p_values, Q)
    assert found == pytest.approx(
        [min(1.0, Q * p / a) for p, a in zip(p_values, expected, strict=True)]
    )
    assert [p <= Q for p in found] == [False, False, False, True, False, True]


def test_it_is_saffron_where_nothing_is_discarded() -> None:
    # Ramdas et al. 2018: a_1 = (1 - lambda) W0 gamma_1; a candidate costs nothing.
    first, second = gamma(1), gamma(2)
    found = addis([0.4, 0.7, 0.01], Q, candidate=0.5, discard=1.0)
    start = 0.5 * Q / 2
    assert found[2] == pytest.approx(Q * 0.01 / (start * second))
    assert levels([0.4, 0.7, 0.01], Q, 0.5, 1.0) == pytest.approx(
        [start * first, start * first, start * second]
    )


@given(sequences, rates)
def test_levels_are_the_paper_s(p_values: list[float], q: float) -> None:
    expected = [min(1.0, q * p / a) for p, a in zip(p_values, levels(p_values, q), strict=True)]
    assert addis(p_values, q) == pytest.approx(expected)


@given(sequences, sequences, rates)
def test_more_at_the_end_changes_nothing_before(
    p_values: list[float], more: list[float], q: float
) -> None:
    assert addis(p_values + more, q)[: len(p_values)] == addis(p_values, q)


@given(sequences, rates)
def test_what_was_spent_is_covered_by_what_was_found(p_values: list[float], q: float) -> None:
    """The estimate of the false discovery proportion that the procedure keeps below q."""
    spent = sum(a for p, a in zip(p_values, levels(p_values, q), strict=True) if LAMBDA < p <= TAU)
    found = sum(p <= q for p in addis(p_values, q))
    assert spent / (TAU - LAMBDA) <= q * max(1, found) * (1 + 1e-9)


@given(sequences, rates, st.data())
def test_disqualified_ones_are_never_found_and_earn_nothing(
    p_values: list[float], q: float, data: st.DataObject
) -> None:
    disqualified = data.draw(
        st.lists(st.booleans(), min_size=len(p_values), max_size=len(p_values))
    )
    found = addis(p_values, q, disqualified)
    assert all(p == 1.0 for p, b in zip(found, disqualified, strict=True) if b)
    # Candidates cost nothing and earn nothing: to those after them it is as if they were not there.
    rest = [p for p, out in zip(p_values, disqualified, strict=True) if not (out and p <= LAMBDA)]
    kept = [
        p
        for p, out, own in zip(found, disqualified, p_values, strict=True)
        if not out or own > LAMBDA
    ]
    assert [p for p in addis(rest, q) if p <= q] == [p for p in kept if p <= q]


@given(st.lists(st.floats(LAMBDA, TAU, exclude_min=True), max_size=30), rates)
def test_the_least_level_is_that_behind_costly_ones(p_values: list[float], q: float) -> None:
    level = statistics.least_level(len(p_values) + 1, q)
    assert addis([*p_values, level / 2], q)[-1] == pytest.approx(q / 2)


@given(sequences, rates)
def test_no_level_is_below_the_least(p_values: list[float], q: float) -> None:
    for number, level in enumerate(levels(p_values, q), start=1):
        assert level >= statistics.least_level(number, q) * (1 - 1e-9)


def test_what_makes_things_worse_costs_nothing() -> None:
    assert addis([0.9, 0.99, 1.0, 0.001], Q)[-1] == addis([0.001], Q)[-1]


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="p-values"):
        addis([bad], Q)


@pytest.mark.parametrize("q", [0.0, 1.0, float("nan")])
def test_what_is_no_rate_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="rate q"):
        addis([0.5], q)
