"""Which trials go into which batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trialkit import Bench

from hpcscientist.campaign.dispatcher import Durations, arrange, make_batch
from hpcscientist.records.trial import Capacity, TrialSpec


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> list[TrialSpec]:
    first = Bench(tmp_path_factory.mktemp("bench")).prepare().trial("predict()", "t0")
    return [first.model_copy(update={"trial_id": f"t{number}"}) for number in range(300)]


@given(
    count=st.integers(0, 300),
    tasks=st.integers(0, 400),
    at_once=st.integers(1, 100),
    pack_s=st.floats(0, 600),
    seconds=st.floats(0, 100),
    each=st.integers(1, 50),
)
def test_arrangement(
    specs: list[TrialSpec],
    count: int,
    tasks: int,
    at_once: int,
    pack_s: float,
    seconds: float,
    each: int,
) -> None:
    capacity = Capacity(room=tasks, batch_max=1000, at_once=at_once, each=each, pack_s=pack_s)
    found = arrange(specs[:count], capacity, lambda spec: seconds)
    flat = [spec for task in found for spec in task]
    assert flat == specs[: len(flat)]  # in order, none twice
    assert len(found) <= tasks
    assert all(task for task in found)
    assert bool(found) == (count > 0 and tasks > 0)
    if found and len(flat) < count:
        assert len(found) == tasks  # left out only for want of room
    if count <= min(tasks, at_once):
        assert [len(task) for task in found] == [1] * len(found)  # what can run side by side does
    assert max((len(task) for task in found), default=1) <= each
    if max((len(task) for task in found), default=1) > 1:
        assert max(len(task) for task in found) * seconds <= pack_s + 1e-6


@given(count=st.integers(0, 300), room=st.integers(0, 400), most=st.integers(1, 400))
def test_no_batch_is_larger_than_one_may_be(
    specs: list[TrialSpec], count: int, room: int, most: int
) -> None:
    found = arrange(specs[:count], Capacity(room, most, at_once=100), lambda spec: 1.0)
    assert len(found) == min(count, room, most)


def test_trials_are_not_packed_where_that_is_switched_off(specs: list[TrialSpec]) -> None:
    found = arrange(specs, Capacity(500, 1000, 8, each=50), lambda spec: 0.1)
    assert [len(task) for task in found] == [1] * 300


def test_what_is_known_of_durations_decides_the_packing(specs: list[TrialSpec]) -> None:
    durations = Durations()
    assert durations.expect(specs[0]) == specs[0].limits.deadline_s
    for seconds in (1.0, 2.0, 9.0):
        durations.add(specs[0], seconds)
    assert durations.expect(specs[1]) == 2.0
    found = arrange(specs, Capacity(500, 1000, 8, each=50, pack_s=20.0), durations.expect)
    # 38 trials for each of the 8 that run at once: four waves of equal tasks, not 3.8 of full ones.
    assert {len(task) for task in found} == {9, 10}
    assert len(found) == 32


def test_no_two_batches_have_the_same_id(specs: list[TrialSpec]) -> None:
    batches = [make_batch([specs[:2], specs[2:3]], avoid=["n1"]) for _ in range(100)]
    assert len({batch.batch_id for batch in batches}) == 100
    assert {batch.elements for batch in batches} == {((specs[0], specs[1]), (specs[2],))}
