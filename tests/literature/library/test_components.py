"""Which rows are one paper, once it is known which pairs are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.literature.library.sameness import _components

PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=60)


@given(PAIRS)
def test_components_are_those_of_going_from_row_to_row(pairs: list[tuple[int, int]]) -> None:
    found = _components(41, np.array(pairs, dtype=np.int64).reshape(-1, 2)).tolist()
    expected, number = [-1] * 41, 0
    for first in range(41):
        if expected[first] < 0:
            waiting = [first]
            while waiting:
                row = waiting.pop()
                if expected[row] < 0:
                    expected[row] = number
                    waiting += [b for pair in pairs for a, b in (pair, pair[::-1]) if a == row]
            number += 1
    assert found == expected


def test_a_long_chain_is_one_component() -> None:
    rows = np.random.default_rng(0).permutation(200_000)
    found = _components(200_001, np.stack([rows[1:], rows[:-1]], axis=1))
    assert found.tolist() == [0] * 200_000 + [1]
