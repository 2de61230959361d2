"""Tasks for tests of fan-outs: found by their names, also in other processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from hpcscientist.errors import RecipeError
from hpcscientist.records.base import Record

LIMIT_S = 60


class Meeting(Record):
    """A folder in which tasks leave marks, and how many of them are waited for."""

    folder: str
    name: str = ""
    together: int = 1


class Unloadable(Exception):
    """Can be pickled, but not made again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)


def double(number: int) -> int:
    return 2 * number


async def double_later(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def thread(_: int) -> tuple[int, bool]:
    """The process, and whether it is a thread beside the main one."""
    return os.getpid(), threading.current_thread() is not threading.main_thread()


def fail(meeting: Meeting) -> None:
    _mark(meeting, "fail")
    raise RecipeError("no good", Path("score.py"), 7)


async def fail_later(meeting: Meeting) -> None:
    fail(meeting)


def fail_unloadably(_: int) -> None:
    raise Unloadable("first\nline", "second")


def return_a_lock(_: int) -> object:
    return threading.Lock()


def meet(meeting: Meeting) -> int:
    """Return how many were there at once, once `together` are."""
    with _present(meeting):
        while (there := _count(meeting)) < meeting.together:
            time.sleep(0.002)
    return there


async def meet_later(meeting: Meeting) -> int:
    with _present(meeting):
        while (there := _count(meeting)) < meeting.together:  # noqa: ASYNC110 - between processes
            await asyncio.sleep(0.002)
    return there


async def most_at_once(meeting: Meeting) -> int:
    """Stay for a few turns and return the highest number of tasks that were seen."""
    with _present(meeting):
        seen = 0
        for _ in range(20):
            seen = max(seen, _count(meeting))
            await asyncio.sleep(0.001)
    return seen


async def wait_for_ever(meeting: Meeting) -> None:
    """Leave a mark at the start, and another where this is cancelled."""
    _mark(meeting, "began")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        _mark(meeting, "cancelled")
        raise


async def die_at_first(meeting: Meeting) -> int:
    """Leave this process's number; at the first try, kill the process."""
    _mark(meeting, f"try-{os.getpid()}")
    if len(tries(Path(meeting.folder))) <= meeting.together:
        os.kill(os.getpid(), 9)
    return os.getpid()


async def meet_on_a_node(meeting: Meeting) -> str:
    """Return the Ray node on which this ran, once `together` have been there at once."""
    import ray  # noqa: PLC0415 - the tests of threads have none

    await meet_later(meeting)
    found: str = ray.get_runtime_context().get_node_id()
    return found


def tries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("try-*"))


@contextlib.contextmanager
def _present(meeting: Meeting) -> Iterator[None]:
    mark = _mark(meeting, f"here-{meeting.name}")
    yield
    # The others may still be counting: a mark goes only where it is the bound that is tested.
    if meeting.together == 1:
        mark.unlink()


def _count(meeting: Meeting) -> int:
    return len(list(Path(meeting.folder).glob("here-*")))


def _mark(meeting: Meeting, name: str) -> Path:
    mark = Path(meeting.folder) / name
    mark.touch()
    return mark
