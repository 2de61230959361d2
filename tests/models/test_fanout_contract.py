"""The contract of ports.fanout.FanOut, run on every adapter."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import fanout_tasks as tasks
import pytest
from fanout_tasks import Meeting
from ray_kit import RayNode, ray_node, skip_without_ray

from hpcscientist.errors import RecipeError, ServingError
from hpcscientist.models.fanout.on_ray import RayFanOut
from hpcscientist.models.fanout.threads import ThreadFanOut
from hpcscientist.ports.fanout import FanOut

WIDTH = 4
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def node() -> Iterator[RayNode]:
    skip_without_ray()
    with pytest.MonkeyPatch.context() as patch, ray_node() as started:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        yield started


@pytest.fixture(params=["threads", pytest.param("ray", marks=pytest.mark.serving)])
async def fan_out(request: pytest.FixtureRequest) -> AsyncIterator[FanOut]:
    opened: FanOut
    if request.param == "threads":
        opened = ThreadFanOut(WIDTH)
    else:
        opened = RayFanOut(request.getfixturevalue("node").cluster, WIDTH)
    yield opened
    await opened.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():  # noqa: ASYNC110 - files tell
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("task", [tasks.double, tasks.double_later])
async def test_results_come_back(fan_out: FanOut, task: Callable[[int], Any]) -> None:
    assert fan_out.width == WIDTH
    found = await asyncio.gather(*(fan_out.run(task, n) for n in range(40)))
    assert found == [2 * n for n in range(40)]


async def test_what_may_block_has_a_thread(fan_out: FanOut) -> None:
    _, beside = await fan_out.run(tasks.thread, 0)
    assert beside


@pytest.mark.parametrize("task", [tasks.meet, tasks.meet_later])
async def test_width_many_run_at_once(
    fan_out: FanOut, tmp_path: Path, task: Callable[[Meeting], Any]
) -> None:
    """Each returns only once all of them are there."""
    meetings = [Meeting(folder=str(tmp_path), name=str(n), together=WIDTH) for n in range(WIDTH)]
    found = await asyncio.gather(*(fan_out.run(task, one) for one in meetings))
    assert max(found) == WIDTH


async def test_no_more_than_width_run_at_once(fan_out: FanOut, tmp_path: Path) -> None:
    meetings = [Meeting(folder=str(tmp_path), name=str(n)) for n in range(5 * WIDTH)]
    found = await asyncio.gather(*(fan_out.run(tasks.most_at_once, one) for one in meetings))
    assert 1 <= max(found) <= WIDTH


@pytest.mark.parametrize("task", [tasks.fail, tasks.fail_later])
async def test_own_exceptions_are_passed_on_as_they_are_and_not_tried_again(
    fan_out: FanOut, tmp_path: Path, task: Callable[[Meeting], Any]
) -> None:
    meeting = Meeting(folder=str(tmp_path))
    with pytest.raises(RecipeError) as caught:
        await fan_out.run(task, meeting)
    assert type(caught.value) is RecipeError
    assert (str(caught.value), caught.value.line) == ("score.py:7: no good", 7)
    assert [path.name for path in tmp_path.iterdir()] == ["fail"]


@pytest.mark.parametrize("task", [lambda number: number, str.upper, 3])
async def test_what_has_no_name_to_go_by_is_refused(fan_out: FanOut, task: Any) -> None:
    with pytest.raises(TypeError, match="top of an importable module"):
        await fan_out.run(task, "a")


async def test_a_cancelled_task_is_cancelled_where_it_runs(fan_out: FanOut, tmp_path: Path) -> None:
    waiting = asyncio.create_task(fan_out.run(tasks.wait_for_ever, Meeting(folder=str(tmp_path))))
    await until((tmp_path / "began").exists)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until((tmp_path / "cancelled").exists)
    assert await fan_out.run(tasks.double, 2) == 4


async def test_cancelling_frees_room(fan_out: FanOut, tmp_path: Path) -> None:
    meeting = Meeting(folder=str(tmp_path))
    many = [
        asyncio.create_task(fan_out.run(tasks.wait_for_ever, meeting)) for _ in range(3 * WIDTH)
    ]
    await until((tmp_path / "began").exists)
    for one in many:
        one.cancel()
    ended = await asyncio.gather(*many, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in ended)
    found = await asyncio.gather(*(fan_out.run(tasks.double_later, n) for n in range(WIDTH)))
    assert found == [0, 2, 4, 6]


async def test_close_ends_what_runs_and_is_idempotent(fan_out: FanOut, tmp_path: Path) -> None:
    running = asyncio.create_task(fan_out.run(tasks.wait_for_ever, Meeting(folder=str(tmp_path))))
    await until((tmp_path / "began").exists)
    await fan_out.close()
    with pytest.raises(ServingError, match="closed"):
        await running
    with pytest.raises(ServingError, match="closed"):
        await fan_out.run(tasks.double, 1)
    await fan_out.close()


async def test_close_unused(fan_out: FanOut) -> None:
    await fan_out.close()
    with pytest.raises(ServingError, match="closed"):
        await fan_out.run(tasks.double, 1)


async def test_the_event_loop_is_free_meanwhile(fan_out: FanOut, tmp_path: Path) -> None:
    """The task ends only when this loop has left a mark for it."""
    meeting = Meeting(folder=str(tmp_path), name="far", together=2)
    waiting = asyncio.create_task(fan_out.run(tasks.meet, meeting))
    await until((tmp_path / "here-far").exists)
    (tmp_path / "here-near").touch()
    assert await waiting == 2


def test_ray_is_not_imported_here() -> None:
    assert "ray" not in sys.modules
