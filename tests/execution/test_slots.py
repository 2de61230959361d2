from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from hpcscientist.execution.backends.slots import Slots, TrialNeeds, gpu_names, memory_mb


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_first_come_first_served() -> None:
    slots, order = Slots(2), []

    async def work(number: int) -> None:
        await slots.take()
        order.append(number)

    tasks = [asyncio.create_task(work(n)) for n in range(5)]
    await settle()
    assert order == [0, 1]
    for served in (2, 3, 4):
        slots.give_back()
        await settle()
        assert order[-1] == served
    await asyncio.gather(*tasks)


async def test_overdrawn_slots_let_nobody_in() -> None:
    slots = Slots(1)
    slots.take_now()
    slots.take_now()
    task = asyncio.create_task(slots.take())
    slots.give_back()
    await settle()
    assert not task.done()
    slots.give_back()
    await task


@pytest.mark.parametrize("turn_came", [False, True])
async def test_a_cancelled_wait_loses_no_slot(turn_came: bool) -> None:
    slots = Slots(1)
    await slots.take()
    quitter, other = asyncio.create_task(slots.take()), asyncio.create_task(slots.take())
    await settle()
    if turn_came:
        slots.give_back()
    quitter.cancel()
    await settle()
    assert quitter.cancelled()
    if not turn_came:
        slots.give_back()
    await asyncio.wait_for(other, 300)


async def test_who_asks_for_the_only_gpu_waits_and_has_it_alone() -> None:
    slots = Slots(4, gpus=("7",))
    first = await slots.take(TrialNeeds(gpus=1))
    assert first.gpus == ("7",)
    second = asyncio.create_task(slots.take(TrialNeeds(gpus=1)))
    await settle()
    assert not second.done()
    slots.give_back(first)
    assert (await asyncio.wait_for(second, 60)).gpus == ("7",)


async def test_gpus_are_not_shared() -> None:
    slots = Slots(4, gpus=("0", "1", "2"))
    pair, single = await slots.take(TrialNeeds(gpus=2)), await slots.take(TrialNeeds(gpus=1))
    assert sorted(pair.gpus + single.gpus) == ["0", "1", "2"]
    slots.give_back(pair)
    assert sorted((await slots.take(TrialNeeds(gpus=2))).gpus) == sorted(pair.gpus)


async def test_what_runs_already_keeps_its_gpus() -> None:
    slots = Slots(4, gpus=("0", "1"))
    assert slots.take_now(TrialNeeds(gpus=1), ("1",)).gpus == ("1",)
    assert (await slots.take(TrialNeeds(gpus=1))).gpus == ("0",)


async def test_more_memory_than_there_is_waits() -> None:
    slots = Slots(4, memory_mb=1000)
    first = await slots.take(TrialNeeds(memory_mb=600))
    second = asyncio.create_task(slots.take(TrialNeeds(memory_mb=600)))
    small = asyncio.create_task(slots.take(TrialNeeds(memory_mb=100)))  # behind it: no overtaking
    await settle()
    assert not second.done()
    assert not small.done()
    slots.give_back(first)
    await asyncio.wait_for(asyncio.gather(second, small), 60)


@pytest.mark.parametrize("need", [TrialNeeds(memory_mb=5000), TrialNeeds(gpus=8)])
async def test_who_asks_for_more_than_there_is_runs_when_nobody_else_has_any(
    need: TrialNeeds,
) -> None:
    slots = Slots(4, gpus=("0",), memory_mb=1000)
    first = await slots.take(TrialNeeds(gpus=1, memory_mb=100))
    large = asyncio.create_task(slots.take(need))
    await settle()
    assert not large.done()
    slots.give_back(first)
    await asyncio.wait_for(large, 60)


async def test_alone_means_that_nothing_runs_beside_it() -> None:
    slots = Slots(3)
    other = await slots.take()
    suspect = asyncio.create_task(slots.take(TrialNeeds(alone=True)))
    behind = asyncio.create_task(slots.take())
    await settle()
    assert not suspect.done()
    slots.give_back(other)
    held = await asyncio.wait_for(suspect, 60)
    await settle()
    assert not behind.done()
    slots.give_back(held)
    await asyncio.wait_for(behind, 60)


async def test_a_cancelled_wait_lets_those_behind_it_in() -> None:
    slots = Slots(2)
    await slots.take()
    suspect = asyncio.create_task(slots.take(TrialNeeds(alone=True)))
    behind = asyncio.create_task(slots.take())
    await settle()
    suspect.cancel()
    await asyncio.wait_for(behind, 60)
    assert behind.done() and suspect.cancelled()


@pytest.mark.parametrize(
    ("given", "names"), [("4, 5", ("4", "5")), ("", ()), ("GPU-1a", ("GPU-1a",))]
)
def test_gpus_that_the_driver_was_given(given: str, names: tuple[str, ...]) -> None:
    assert gpu_names({"CUDA_VISIBLE_DEVICES": given}) == names


def test_gpus_that_the_machine_has(tmp_path: Path) -> None:
    assert gpu_names({}, tmp_path / "none") == ()
    for bus in ("0000:17:00.0", "0000:65:00.0"):
        (tmp_path / bus).mkdir()
    assert gpu_names({}, tmp_path) == ("0", "1")


def test_memory_is_no_more_than_the_machines() -> None:
    assert 0 < memory_mb() <= psutil.virtual_memory().total / 2**20
