from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.literature.material import merge
from hpcscientist.records.literature import Hit

LISTS = st.dictionaries(
    st.text(min_size=1, max_size=3),
    st.lists(st.integers(0, 9), unique=True, max_size=8),
    max_size=5,
)


def hits(numbers: list[int]) -> list[Hit]:
    return [
        Hit(paper_id=f"p{n}", title=f"T{n}", abstract="", year=None, origin="o", score=1.0)
        for n in numbers
    ]


def order(searches: dict[str, list[int]]) -> list[str]:
    return [e.hit.paper_id for e in merge({q: hits(found) for q, found in searches.items()})]


@given(LISTS)
def test_each_paper_once_by_the_sum_of_reciprocal_ranks(searches: dict[str, list[int]]) -> None:
    exact: dict[str, Fraction] = {}
    for found in searches.values():
        for rank, number in enumerate(found, start=1):
            exact[f"p{number}"] = exact.get(f"p{number}", Fraction(0)) + Fraction(1, 60 + rank)
    ordered = order(searches)
    assert sorted(ordered) == sorted(exact)
    sums = [exact[paper] for paper in ordered]
    assert all(one >= other or abs(one - other) < 1e-12 for one, other in pairwise(sums))


@given(LISTS, st.randoms())
def test_the_order_of_the_searches_does_not_matter(searches: dict[str, list[int]], draw) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(searches.items())
    draw.shuffle(shuffled)
    assert order(dict(shuffled)) == order(searches)


def test_what_two_searches_find_beats_the_best_of_one() -> None:
    found = merge({"a": hits([1, 2]), "b": hits([3, 2])})
    assert [entry.hit.paper_id for entry in found] == ["p2", "p1", "p3"]
    assert [entry.queries for entry in found] == [("a", "b"), ("a",), ("b",)]


def test_a_search_that_names_a_paper_twice_counts_it_once() -> None:
    assert order({"a": [1, 1, 2], "b": [2]}) == ["p2", "p1"]
