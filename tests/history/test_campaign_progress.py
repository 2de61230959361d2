"""How far ideas have come, held against plain sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.config.extent import Extent
from hpcscientist.history.state import Frontier, IdeasProgress

NUMBERS = st.integers(1, 30)


@given(st.lists(st.tuples(st.booleans(), st.sets(NUMBERS, max_size=6)), max_size=30))
def test_a_frontier_is_a_set_of_numbers(changes: list[tuple[bool, set[int]]]) -> None:
    frontier, known = Frontier(), set[int]()
    for added, numbers in changes:
        if added:
            for number in numbers:
                frontier.reach(number)
            known |= numbers
        else:
            frontier.withdraw(numbers)
            known -= numbers
        assert {n for n in range(1, 32) if n in frontier} == known
        assert frontier.low == next(n for n in range(1, 33) if n not in known) - 1


def test_what_was_set_aside_is_open_again_for_the_next_driver() -> None:
    progress = IdeasProgress()
    for number in (1, 2, 3):
        progress.idea_proposed(f"idea-{number}", number)
    progress.idea_set_aside("idea-1", 1)
    progress.idea_ended("idea-2", 2)
    assert (progress.over.low, list(progress.open)) == (2, ["idea-3"])
    progress.driver_started()
    assert (progress.over.low, list(progress.open)) == (0, ["idea-1", "idea-3"])
    assert 2 in progress.over
    progress.idea_ended("idea-1", 1)
    assert (progress.over.low, progress.ended) == (2, 2)


def test_results_are_settled_once_their_idea_has_ended() -> None:
    progress = IdeasProgress()
    progress.idea_proposed("idea-1", 1)
    progress.trial_settled("idea-1", is_over=False)
    progress.trial_settled("idea-1", is_over=False)
    assert progress.settled == 0
    progress.idea_ended("idea-1", 1)
    progress.trial_settled("idea-1", is_over=True)  # on the test split
    assert progress.settled == 3


@given(st.integers(1, 60), st.integers(0, 70))
def test_the_round_of_an_idea_is_the_one_that_it_is_in(ideas: int, rounds: int) -> None:
    extent = Extent(ideas, rounds, in_flight=1, lag=1, model_name="", seed=0)
    found = {number: extent.round_of(number) for number in range(1, ideas + 1)}
    assert found == {n: number for number, chunk in extent.chunks() for n in chunk}
