"""Trials that wait, and what becomes of those that were submitted: on a place that is scripted."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trialkit import Bench

from hpcscientist.campaign.dispatcher import Dispatcher, journalled
from hpcscientist.campaign.trial_runner import TrialRunner
from hpcscientist.errors import DiskFull, MachineTrouble, SchedulerRefused, SchedulerSilent
from hpcscientist.history.journal import Journal, read
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import BatchQueued, TrialQueued
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import (
    Accepted,
    Answer,
    Batch,
    Capacity,
    Change,
    Ended,
    EndState,
    Freed,
    Held,
    Intent,
    Refused,
    RunId,
    Stage,
    Started,
    TrialSpec,
    Unknown,
    run_of,
)

ROOMY = Capacity(room=100, batch_max=100, at_once=100)


class Place:
    """A backend that does what the test says: answers are taken from `answers`, then accepts."""

    outlives_driver = True
    gather_s = 0.0

    def __init__(self, *answers: Answer, followed: Collection[RunId] = ()) -> None:
        self.answers = list(answers)
        self.followed = followed
        self.rooms: list[Capacity] = []
        self.expected: list[float] = []
        self.batches: list[Batch] = []
        self.cancelled: list[RunId] = []
        self.intents: Sequence[Intent] = ()
        self.calls: list[str] = []
        self.silent = False
        self._told: asyncio.Queue[Change | BaseException] = asyncio.Queue()

    def tell(self, *changes: Change | BaseException) -> None:
        for change in changes:
            self._told.put_nowait(change)

    async def adopt(self, intents: Sequence[Intent]) -> Collection[RunId]:
        self.intents = intents
        return self.followed

    async def capacity(self, like: TrialSpec, expect_s: float = math.inf) -> Capacity:
        self.expected.append(expect_s)
        return self.rooms.pop(0) if self.rooms else ROOMY

    async def submit(self, batch: Batch) -> Answer:
        self.batches.append(batch)
        return self.answers.pop(0) if self.answers else Accepted()

    async def changes(self) -> Sequence[Change]:
        change = await self._told.get()
        if isinstance(change, BaseException):
            raise change
        return [change]

    async def cancel(self, runs: Collection[RunId]) -> None:
        self.cancelled += runs
        self.tell(*(Ended(run, EndState.CANCELLED, ended_at=0.0) for run in runs))

    async def sweep(self) -> None:
        self.calls.append("sweep")
        if self.silent:
            raise SchedulerSilent("nobody answers")

    async def close(self) -> None:
        self.calls.append("close")

    def names(self) -> list[list[list[str]]]:
        return [[[s.trial_id for s in element] for element in b.elements] for b in self.batches]


@pytest.fixture
def specs(tmp_path: Path) -> list[TrialSpec]:
    first = Bench(tmp_path).prepare().trial("predict()", "t0")
    return [first.model_copy(update={"trial_id": f"t{number}"}) for number in range(6)]


async def test_a_place_is_told_how_long_trials_took(specs: list[TrialSpec]) -> None:
    place = Place()
    dispatcher = Dispatcher(place)
    for spec, took_s in ((specs[0], 3.0), (specs[1], 5.0), (specs[2], 9.0)):
        call = asyncio.create_task(dispatcher.run([spec], lambda s: None, lambda s, e: None))
        await until(lambda s=spec: place.batches and place.batches[-1].elements == ((s,),))
        place.tell(Ended(run_of(spec), EndState.ENDED, ended_at=took_s, began_at=0.0))
        await call
    await dispatcher.close()
    assert place.expected == [specs[0].limits.deadline_s, 3.0, 4.0]
    assert [batch.expect_s for batch in place.batches] == place.expected


def end(spec: TrialSpec, state: EndState = EndState.ENDED) -> Ended:
    return Ended(run_of(spec), state, ended_at=2.0, began_at=1.0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (another task's doing)
            await asyncio.sleep(0.001)


class Caller:
    """Who asks for trials, and what it was told."""

    def __init__(self, dispatcher: Dispatcher, *specs: TrialSpec) -> None:
        self.started: list[str] = []
        self.ended: list[tuple[str, str]] = []
        self.task = asyncio.create_task(dispatcher.run(specs, self._start, self._end))

    def _start(self, spec: TrialSpec) -> None:
        self.started.append(spec.trial_id)

    def _end(self, spec: TrialSpec, ended: Ended | None) -> None:
        assert ended is not None
        self.ended.append((spec.trial_id, ended.state.value))


async def test_trials_that_ask_for_the_same_share_a_batch(specs: list[TrialSpec]) -> None:
    limits = specs[2].limits.model_copy(update={"cpus": 2})
    large = specs[2].model_copy(update={"limits": limits})
    place = Place()
    dispatcher = Dispatcher(place)
    dispatcher.avoid(["n2", "n1"])
    caller = Caller(dispatcher, specs[0], large, specs[1])
    await until(lambda: len(place.batches) == 2)
    assert place.names() == [[["t0"], ["t1"]], [["t2"]]]
    assert place.batches[0].avoid == ("n1", "n2")
    place.tell(Started(run_of(specs[0])), *(end(spec) for spec in (specs[0], large, specs[1])))
    await caller.task
    assert caller.started == ["t0"]  # what nobody saw begin may have begun under another driver
    assert caller.ended == [("t0", "ended"), ("t2", "ended"), ("t1", "ended")]
    await dispatcher.close()
    assert place.calls == ["sweep", "close"]
    assert place.cancelled == []


@pytest.mark.parametrize("state", [EndState.NOT_RUN, EndState.NOT_SUBMITTED, EndState.PREEMPTED])
async def test_what_cost_nothing_is_submitted_again_before_what_came_later(
    specs: list[TrialSpec], state: EndState
) -> None:
    full = Capacity(room=0, batch_max=0, at_once=0, pause_s=3600.0)
    place = Place()
    place.rooms = [ROOMY, full]
    dispatcher = Dispatcher(place)
    caller = Caller(dispatcher, specs[0])
    await until(lambda: bool(place.batches))
    later = Caller(dispatcher, specs[1])
    await until(lambda: not place.rooms)
    place.tell(end(specs[0], state))
    await until(lambda: len(place.batches) == 2)
    assert place.names() == [[["t0"]], [["t0"], ["t1"]]]
    assert caller.ended == []
    place.tell(end(specs[0]), end(specs[1]))
    await asyncio.gather(caller.task, later.task)
    assert caller.ended == [("t0", "ended")]
    await dispatcher.close()


async def test_where_there_is_no_room_it_is_asked_again_once_something_is_freed(
    specs: list[TrialSpec],
) -> None:
    full = Capacity(room=0, batch_max=0, at_once=0, pause_s=3600.0)
    place = Place()
    place.rooms = [full]
    dispatcher = Dispatcher(place)
    caller = Caller(dispatcher, specs[0])
    await until(lambda: not place.rooms)
    assert place.batches == []
    place.tell(Freed())
    await until(lambda: bool(place.batches))
    place.tell(end(specs[0]))
    await caller.task
    await dispatcher.close()


async def test_a_place_is_taken_again_before_anybody_is_told_that_it_was_left(
    specs: list[TrialSpec],
) -> None:
    """What is done about an end takes time, and the place would be empty for as long."""
    place, queued = Place(), []
    place.outlives_driver = False
    one = Capacity(room=1, batch_max=1, at_once=1, pause_s=3600.0)
    place.rooms = [one, replace(one, room=0), one]
    dispatcher = Dispatcher(place)

    def over(spec: TrialSpec, ended: Ended | None) -> None:
        queued.append((spec.trial_id, len(place.batches)))

    task = asyncio.create_task(dispatcher.run(specs[:2], lambda spec: None, over))
    await until(lambda: len(place.batches) == 1)
    place.tell(end(specs[0]))
    await until(lambda: len(place.batches) == 2)
    place.tell(end(specs[1]))
    await task
    assert queued == [("t0", 2), ("t1", 2)]
    assert place.rooms == []  # and nobody asked twice for the same
    await dispatcher.close()


async def test_nobody_waits_for_a_scheduler_to_be_told_of_an_end(specs: list[TrialSpec]) -> None:
    place, told = Place(), asyncio.Event()
    one = Capacity(room=1, batch_max=1, at_once=1, pause_s=3600.0)
    place.rooms = [one, replace(one, room=0), one]
    dispatcher = Dispatcher(place)
    behind: list[int] = []

    def over(spec: TrialSpec, ended: Ended | None) -> None:
        behind.append(len(place.batches))
        told.set()

    task = asyncio.create_task(dispatcher.run(specs[:2], lambda spec: None, over))
    await until(lambda: len(place.batches) == 1)
    place.tell(end(specs[0]))
    await told.wait()
    assert behind == [1]
    await until(lambda: len(place.batches) == 2)
    place.tell(end(specs[1]))
    await task
    await dispatcher.close()


async def test_what_is_known_is_told_though_a_place_is_being_taken_as_all_ends(
    specs: list[TrialSpec],
) -> None:
    place = Place()
    place.outlives_driver = False
    one = Capacity(room=1, batch_max=1, at_once=1, pause_s=3600.0)
    place.rooms = [one, replace(one, room=0), one]
    dispatcher = Dispatcher(place)
    caller = Caller(dispatcher, *specs[:2])
    await until(lambda: len(place.batches) == 1)
    asked = asyncio.Event()

    async def never(like: TrialSpec, expect_s: float = math.inf) -> Capacity:
        asked.set()
        return await asyncio.get_running_loop().create_future()

    place.capacity = never  # type: ignore[method-assign]
    place.tell(end(specs[0]))
    await asked.wait()
    await dispatcher.close()
    assert caller.ended == [("t0", "ended")]
    caller.task.cancel()
    await asyncio.wait({caller.task})


@pytest.mark.parametrize("changed", [{"stage": Stage.PILOT}, {"idea_id": BASELINE_ID}])
async def test_what_others_wait_for_has_its_turn_first(
    specs: list[TrialSpec], changed: dict[str, object]
) -> None:
    place = Place()
    one = Capacity(room=1, batch_max=1, at_once=1, pause_s=3600.0)
    place.rooms = [*[one, replace(one, room=0)] * 3, one]
    dispatcher = Dispatcher(place)
    pilots = [spec.model_copy(update=changed) for spec in specs[2:4]]
    callers = [Caller(dispatcher, *specs[:2])]
    await until(lambda: len(place.batches) == 1)
    callers.append(Caller(dispatcher, *pilots))
    for spec in (specs[0], *pilots, specs[1]):
        await until(lambda last=[[spec.trial_id]]: place.names()[-1:] == [last])  # type: ignore[misc]
        place.tell(end(spec))
    await asyncio.gather(*(caller.task for caller in callers))
    assert place.names() == [[["t0"]], [["t2"]], [["t3"]], [["t1"]]]
    await dispatcher.close()


async def test_a_refusal_that_passes_is_tried_again_and_another_ends_all(
    specs: list[TrialSpec],
) -> None:
    place = Place(Refused("full", transient=True), Refused("never", transient=False))
    dispatcher = Dispatcher(place)
    callers = [Caller(dispatcher, spec) for spec in specs[:2]]
    for caller in callers:
        with pytest.raises(SchedulerRefused, match="never"):
            await caller.task
    assert place.names() == [[["t0"], ["t1"]]] * 2
    assert len({batch.batch_id for batch in place.batches}) == 2
    with pytest.raises(SchedulerRefused, match="never"):
        await dispatcher.run(specs[2:3], lambda spec: None, lambda spec, ended: None)
    await dispatcher.close()


async def test_nothing_is_submitted_twice_of_which_nobody_knows_whether_it_was(
    specs: list[TrialSpec],
) -> None:
    place = Place(Unknown())
    dispatcher = Dispatcher(place)
    caller = Caller(dispatcher, specs[0])
    await until(lambda: bool(place.batches))
    other = Caller(dispatcher, specs[1])
    await until(lambda: len(place.batches) == 2)
    assert place.names() == [[["t0"]], [["t1"]]]
    place.tell(end(specs[0], EndState.NOT_SUBMITTED))
    await until(lambda: len(place.batches) == 3)
    place.tell(end(specs[0]), end(specs[1]))
    await asyncio.gather(caller.task, other.task)
    await dispatcher.close()


@pytest.mark.parametrize("early", [True, False])
async def test_what_was_adopted_is_waited_for_whenever_it_is_asked_for(
    specs: list[TrialSpec], early: bool
) -> None:
    runs = [run_of(spec) for spec in specs[:2]]
    intents = [Intent("b1", ((runs[0],), (runs[1],)))]
    place = Place(followed=runs)
    dispatcher = Dispatcher(place, intents=intents)
    other = Caller(dispatcher, specs[5])  # so that it begins
    await until(lambda: bool(place.batches))
    callers = [Caller(dispatcher, spec) for spec in specs[:2]] if early else []
    place.tell(Started(runs[0]), end(specs[0]), end(specs[1], EndState.NOT_RUN), end(specs[5]))
    await other.task
    callers = callers or [Caller(dispatcher, spec) for spec in specs[:2]]
    await callers[0].task
    assert (callers[0].started, callers[0].ended) == (["t0"], [("t0", "ended")])
    await until(lambda: len(place.batches) == 2)
    assert place.names() == [[["t5"]], [["t1"]]]
    assert place.intents == intents
    place.tell(end(specs[1]))
    await callers[1].task
    await dispatcher.close()


async def test_who_gives_up_has_his_own_ended_and_nobody_else_s(specs: list[TrialSpec]) -> None:
    full = Capacity(room=0, batch_max=0, at_once=0, pause_s=3600.0)
    place = Place()
    place.rooms = [ROOMY, full]
    dispatcher = Dispatcher(place)
    one, two = Caller(dispatcher, specs[0]), Caller(dispatcher, specs[1])
    await until(lambda: bool(place.batches))
    waits = Caller(dispatcher, specs[2])
    await until(lambda: not place.rooms)
    for caller in (waits, one):
        caller.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller.task
    assert place.cancelled == [run_of(specs[0])]
    place.tell(end(specs[1]))
    await two.task
    assert place.names() == [[["t0"], ["t1"]]]
    assert (one.ended, waits.ended, two.ended) == ([], [], [("t1", "ended")])
    await dispatcher.close()


async def test_what_a_caller_raises_is_his(specs: list[TrialSpec]) -> None:
    place = Place()
    dispatcher = Dispatcher(place)

    def refuse(spec: TrialSpec) -> None:
        raise OSError(28, "No space left on device")

    work = asyncio.create_task(dispatcher.run([specs[0]], refuse, lambda spec, ended: None))
    other = Caller(dispatcher, specs[1])
    await until(lambda: bool(place.batches))
    place.tell(Started(run_of(specs[0])))
    with pytest.raises(OSError, match="No space"):
        await work
    assert place.cancelled == [run_of(specs[0])]
    place.tell(end(specs[1]))
    await other.task
    await dispatcher.close()


async def test_what_a_place_raises_is_everybody_s(specs: list[TrialSpec]) -> None:
    place = Place()
    dispatcher = Dispatcher(place)
    callers = [Caller(dispatcher, spec) for spec in specs[:2]]
    await until(lambda: bool(place.batches))
    place.tell(SchedulerRefused("array 7 will never run"))
    for caller in callers:
        with pytest.raises(SchedulerRefused, match="array 7"):
            await caller.task
    place.silent = True
    await dispatcher.close()  # what is left stays to be found
    assert place.calls == ["sweep", "close"]


async def test_what_is_let_go_is_left_to_whatever_outlives_us(specs: list[TrialSpec]) -> None:
    for outlives in (True, False):
        place = Place()
        place.outlives_driver = outlives
        dispatcher = Dispatcher(place)
        caller = Caller(dispatcher, specs[0])
        await until(lambda place=place: bool(place.batches))  # type: ignore[misc]
        dispatcher.let_go()
        caller.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await caller.task
        await dispatcher.close()
        assert place.calls == ["close"]
        assert bool(place.cancelled) is not outlives


async def test_people_are_told_why_trials_wait(specs: list[TrialSpec]) -> None:
    said: list[tuple[str, str]] = []
    place = Place()
    dispatcher = Dispatcher(place, notify=lambda name, text: said.append((name, text)))
    caller = Caller(dispatcher, specs[0])
    place.tell(Held("queue x", "they wait"), end(specs[0]))
    await caller.task
    assert said == [("queue x", "they wait")]
    await dispatcher.close()


@pytest.mark.parametrize("outlives", [True, False])
async def test_the_intent_is_journalled_first_where_it_may_outlive_us(
    specs: list[TrialSpec], tmp_path: Path, outlives: bool
) -> None:
    state, told = CampaignState(), []
    journal = Journal(tmp_path / "journal.jsonl", state.apply)
    for spec in specs[:2]:
        journal.record(
            TrialQueued(
                trial_id=spec.trial_id,
                idea_id=spec.idea_id,
                attempt=1,
                stage=spec.stage,
                seed=1,
                run=1,
                generation=3,
            )
        )

    class Looking(Place):
        async def submit(self, batch: Batch) -> Answer:
            told.append([e for e in read(tmp_path / "journal.jsonl") if e.type == "batch_queued"])
            return await super().submit(batch)

    place = Looking()
    place.outlives_driver = outlives
    dispatcher = journalled(place, journal, state, 3, lambda name, text: None)
    caller = Caller(dispatcher, *specs[:2])
    await until(lambda: bool(place.batches))
    batch = place.batches[0]
    expected = BatchQueued(batch_id=batch.batch_id, generation=3, elements=batch.runs)
    assert told == [[expected] if outlives else []]
    assert state.intents.open() == ([Intent(batch.batch_id, batch.runs)] if outlives else [])
    place.tell(*(end(spec) for spec in specs[:2]))
    await caller.task
    await dispatcher.close()
    journal.close()


async def two_that_fail_at_once(specs: Sequence[TrialSpec], by_place: bool) -> None:
    """Have two trials fail in one turn of the loop; the second's caller is ended for the first."""
    place = Place()
    dispatcher = Dispatcher(place)

    def fail(spec: TrialSpec, ended: Ended | None) -> None:
        raise MachineTrouble(spec.trial_id)

    async def one(spec: TrialSpec) -> None:
        await dispatcher.run([spec], lambda spec: None, fail)

    first, second = (asyncio.create_task(one(spec)) for spec in specs)
    await until(lambda: len(place.batches) > 0)
    place.tell(*([MachineTrouble("t0")] if by_place else [end(spec) for spec in specs]))
    first.add_done_callback(lambda _: second.cancel())
    await asyncio.wait({first, second})
    assert str(first.exception()) == "t0"
    assert second.cancelled() or isinstance(second.exception(), MachineTrouble)
    await dispatcher.close()


@pytest.mark.parametrize("by_place", [True, False])
async def test_errors_of_two_trials_at_once_leave_none_unheard(
    specs: list[TrialSpec], by_place: bool
) -> None:
    """Or asyncio would print a traceback of its own, below the one line that people are told."""
    unheard: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    await two_that_fail_at_once(specs[:2], by_place)
    gc.collect()  # what has gone with an error that nobody asked for tells so
    assert unheard == []


async def a_place_that_fails_as_all_ends(specs: Sequence[TrialSpec]) -> None:
    class Ending(Place):
        async def changes(self) -> Sequence[Change]:
            await self._told.get()
            assert dispatcher._tending is not None
            dispatcher._tending.cancel()  # in the same turn of the loop
            raise MachineTrouble("t0")

    place = Ending()
    dispatcher = Dispatcher(place)
    caller = asyncio.create_task(
        dispatcher.run(specs[:1], lambda spec: None, lambda spec, ended: None)
    )
    await until(lambda: len(place.batches) > 0)
    place.tell(end(specs[0]))
    await until(lambda: dispatcher._tending is not None and dispatcher._tending.done())
    await dispatcher.close()
    await asyncio.wait({caller})
    assert caller.cancelled()


async def test_an_error_of_a_place_that_comes_as_all_ends_is_heard(specs: list[TrialSpec]) -> None:
    unheard: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    await a_place_that_fails_as_all_ends(specs)
    gc.collect()  # what has gone with an error that nobody asked for tells so
    assert unheard == []


async def test_of_trials_that_fail_at_once_the_first_s_error_is_raised_with_its_cause(
    specs: list[TrialSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: TrialRunner, spec: TrialSpec) -> None:
        raise DiskFull(spec.trial_id) from OSError(errno.ENOSPC, spec.trial_id)

    monkeypatch.setattr(TrialRunner, "_run", fail)
    nothing: Any = None
    trials = TrialRunner(nothing, nothing, CampaignState(), nothing, 1, 0, 0.0)
    with pytest.raises(DiskFull) as raised:
        await trials.run(specs[:2])
    assert str(raised.value) == specs[0].trial_id
    assert isinstance(raised.value.__cause__, OSError)
