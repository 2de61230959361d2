from __future__ import annotations

import asyncio

import pytest

from hpcscientist.execution.backends.slots import Slots


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
