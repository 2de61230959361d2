"""The table of `bench authoring`, and how sure a paired difference is."""

from __future__ import annotations

import json
import math
import re
from itertools import product

import pytest
from benchmarks.authoring.figures import figures, table
from benchmarks.authoring.outcomes import MODES, Fixed, Measured, Mode, Written
from benchmarks.authoring.paired import compare
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.bench.figure import as_json

Pair = tuple[bool, bool]
BOTH, GAINED, LOST, NEITHER = (True, True), (True, False), (False, True), (False, False)


def pairs(both: int, gained: int, lost: int, neither: int) -> list[Pair]:
    return [BOTH] * both + [GAINED] * gained + [LOST] * lost + [NEITHER] * neither


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        # Newcombe 1998, table II; Fagerland et al., Airway hyper-responsiveness (Bentur 2009).
        ((36, 12, 2, 0), 0.0569, 0.3404),
        ((1, 1, 7, 12), -0.507, -0.026),
        # Altman et al. 2000, Statistics with Confidence, table 6.2.
        ((14, 5, 0, 22), 0.011, 0.226),
    ],
)
def test_intervals_are_those_that_are_published(
    counts: tuple[int, int, int, int], low: float, high: float
) -> None:
    found = compare(pairs(*counts))
    assert found.low == pytest.approx(low, abs=6e-4)
    assert found.high == pytest.approx(high, abs=6e-4)


def test_p_values_are_exact() -> None:
    assert compare(pairs(3, 0, 0, 4)).p_value == 1
    assert compare(pairs(0, 1, 7, 0)).p_value == 2 * (1 + 8) / 2**8
    assert compare(pairs(9, 5, 0, 9)).p_value == 2 / 2**5
    assert compare(pairs(9, 2, 2, 9)).p_value == 1


def test_no_pair_is_no_comparison() -> None:
    with pytest.raises(ValueError, match="no pair"):
        compare([])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_a_difference_lies_in_its_interval_and_turns_with_its_sides(given_: list[Pair]) -> None:
    found = compare(given_)
    turned = compare([(second, first) for first, second in given_])
    assert -1 <= found.low <= found.difference <= found.high <= 1
    assert found.high > found.low  # also where no pair differs
    assert turned.difference == -found.difference
    assert turned.low == pytest.approx(-found.high)
    assert turned.p_value == found.p_value
    assert 0 < found.p_value <= 1


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """Every outcome of 12 pairs, weighed by its probability."""
    count = 12
    for gained, lost, both in ((0.3, 0.05, 0.3), (0.1, 0.1, 0.4), (0.5, 0.0, 0.2)):
        held = 0.0
        neither = 1 - gained - lost - both
        for b, g, o in product(range(count + 1), repeat=3):
            n = count - b - g - o
            if n < 0:
                continue
            ways = math.comb(count, b) * math.comb(count - b, g) * math.comb(count - b - g, o)
            weight = ways * both**b * gained**g * lost**o * neither**n
            found = compare(pairs(b, g, o, n))
            held += weight * (found.low <= gained - lost <= found.high)
        assert held > 0.93


def fixed(mode: Mode, after: int | None, rounds: int) -> Fixed:
    return Fixed(mode, after, rounds, prompt_tokens=1000 * rounds, completion_tokens=10 * rounds)


def measured(rounds: int = 5) -> Measured:
    of = [
        Written(1, "a", "ran"),
        Written(2, "b", "no code"),
        Written(
            3, "c", "failed", (fixed("none", None, 5), fixed("structure", 4, 4),
                               fixed("traceback", 1, 1)),
        ),
        Written(
            4, "d", "failed", (fixed("none", 2, 2), fixed("structure", None, 5),
                               fixed("traceback", 3, 3)),
        ),
    ]  # fmt: skip
    return Measured(of, wanted=4, rounds=rounds)


def test_shares_and_means_by_mode() -> None:
    found = {figure.name: figure for figure in figures(measured())}
    ran = {
        (mode, n): found[f"ran after at most {n} round{'s' * (n > 1)}, {mode}"].value
        for mode in MODES
        for n in (1, 3, 5)
    }
    assert [ran["none", n] for n in (1, 3, 5)] == [0.25, 0.5, 0.5]
    assert [ran["structure", n] for n in (1, 3, 5)] == [0.25, 0.25, 0.5]
    assert [ran["traceback", n] for n in (1, 3, 5)] == [0.5, 0.75, 0.75]
    assert found["rounds of debugging, traceback"].value == 2
    assert found["rounds of debugging, traceback"].ratio == pytest.approx(2 / 3.5)
    assert found["prompt tokens of debugging, structure"].value == 4500
    assert found["prompt tokens of debugging, structure"].spread == 1000
    # Structure wins one idea and loses another: paired, and not only counted.
    difference = found["ran in the end, structure minus none"]
    assert difference.compared_with == "none: 1 ideas gained, 1 lost"
    assert difference.value == 0
    assert all(len(row) == 8 for row in json.loads(as_json(list(found.values()))))


def test_the_table_has_a_column_a_mode() -> None:
    lines = table(measured()).splitlines()
    assert lines[0].split() == ["debugging", "none", "structure", "traceback"]
    by_name = {line[: line.index("  ")]: line for line in lines[1:9]}
    assert by_name["ran at first"].count("0.25 (0.05 to 0.70)") == 3
    assert by_name["ran after at most 3 rounds"].endswith("  0.75 (0.30 to 0.95)")
    assert by_name["rounds, mean"].split()[-3:] == ["3.50", "4.50", "2.00"]
    assert by_name["prompt tokens, mean"].split()[-3:] == ["3,500", "4,500", "2,000"]
    assert re.findall(r"\d+", lines[-1])[:4] == ["4", "1", "2", "1"]


def test_a_round_number_stands_once() -> None:
    names = [figure.name for figure in figures(measured(rounds=3))]
    assert len(names) == len(set(names))
    assert "ran after at most 5 rounds, none" not in names
    one = [figure.name for figure in figures(measured(rounds=1))]
    assert [name for name in one if name.startswith("ran after")] == [
        f"ran after at most 1 round, {mode}" for mode in MODES
    ]


def test_without_ideas_nothing_was_measured() -> None:
    empty = Measured([], wanted=3, rounds=5)
    assert figures(empty) == []
    assert table(empty) == "No idea could be written, so nothing was measured."


def test_ideas_without_code_alone_compare_nothing() -> None:
    only = Measured([Written(1, "a", "no code")], wanted=1, rounds=5)
    assert [figure.value for figure in figures(only)] == [0]
    assert "NOTHING FAILED AT FIRST" in table(only)
