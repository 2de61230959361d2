"""Which array tasks are given further trials, and when a new array is asked for instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from trialkit import Bench

from hpcscientist.campaign.dispatcher import make_batch
from hpcscientist.execution.backends.slurm.batches import (
    LINGER_S,
    BatchFolder,
    Message,
    accepting,
    record_of,
)
from hpcscientist.execution.backends.slurm.running_tasks import RunningTasks
from hpcscientist.execution.backends.slurm.watching.ledger import (
    ArrayTask,
    BatchLedger,
    LiveBatch,
    adopt,
    live_batch,
    loop_time,
)
from hpcscientist.execution.backends.slurm.watching.states import Phase
from hpcscientist.records.site import PartitionChoice, Site, SlurmSite
from hpcscientist.records.trial import Capacity, EndState, TrialSpec, run_of

HOURS, STAY_S = 600, 300.0
SITE = Site(slurm=SlurmSite(stay_s=STAY_S))
Change = Callable[[ArrayTask], object]


class World:
    """One array of two tasks, a trial each, both of which run and were seen to end."""

    def __init__(self, root: Path) -> None:
        first = Bench(root).prepare().trial("predict()", "t0")
        self.specs = [first.model_copy(update={"trial_id": f"t{n}"}) for n in range(20)]
        self.ledger = BatchLedger()
        self.running = RunningTasks(self.ledger)
        self.submission = root / "submission"
        self.live = self.array(self.specs[0], self.specs[1])
        for task in self.live.tasks:
            task.started, task.phase, task.over = True, Phase.RUNNING, {0}
            task.started_at = loop_time() - 100.0

    def array(self, *specs: TrialSpec) -> LiveBatch:
        batch = make_batch([[spec] for spec in specs], expect_s=1.0)
        record = accepting(record_of("c", self.submission, batch, 0.0), SITE, HOURS)
        folder = BatchFolder(self.submission / record.batch_id)
        folder.write(record)
        live = live_batch(record, folder, "7")
        self.ledger.add(live)
        return live

    def room(self, expect_s: float = 1.0, most: int = 99, number: int = 9) -> Capacity | None:
        return self.running.capacity(self.specs[number], expect_s, most)

    def give(self, *numbers: int, avoid: tuple[str, ...] = ()) -> object:
        """Give trials, each as an element of its own; return the names of those that are late."""
        elements = [[self.specs[number]] for number in numbers]
        left = self.running.assign(make_batch(elements, avoid, expect_s=1.0))
        return left if left is None else [run.trial_id for run in left]

    def names(self) -> list[list[str]]:
        return [[run.trial_id for run in task.runs] for task in self.live.tasks]


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_who_has_least_to_do_is_given_the_next(world: World) -> None:
    found = world.room()
    assert found is not None
    assert (found.room, found.batch_max, found.at_once, found.each > 1) == (2, 2, 2, True)
    assert world.give(2) == []
    assert world.give(3) == []
    assert world.give(4, 5) == []
    assert world.names() == [["t0", "t2", "t4"], ["t1", "t3", "t5"]]
    assert world.ledger.runs() == {run_of(world.specs[n]) for n in (2, 3, 4, 5)}
    inbox = world.live.folder.inbox(0)
    assert [inbox.read(number).runs for number in (1, 2)] == [  # type: ignore[union-attr]
        (run_of(world.specs[2]),),
        (run_of(world.specs[4]),),
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda task: setattr(task, "started", False),
        lambda task: setattr(task, "message", 0),
        lambda task: setattr(task, "stopping", True),
        lambda task: task.unwanted.add(1),  # given up, and not ended yet
        lambda task: task.end(EndState.ENDED, "COMPLETED"),
        lambda task: setattr(task, "started_at", loop_time() - STAY_S),
        lambda task: setattr(task, "idle_since", loop_time() - LINGER_S),
    ],
)
async def test_a_task_that_does_not_take_it_is_not_asked(world: World, change: Change) -> None:
    change(world.live.tasks[0])
    found = world.room()
    assert found is not None
    assert found.room == 1
    assert world.give(2, 3) is None  # two elements, and one task
    assert world.give(2) == []
    assert world.names() == [["t0"], ["t1", "t2"]]


async def test_one_that_asks_for_more_goes_elsewhere(world: World) -> None:
    larger = world.specs[9].limits.model_copy(update={"memory_mb": 4096})
    world.specs[9] = world.specs[9].model_copy(update={"limits": larger})
    assert world.room() is None
    assert world.give(9) is None


async def test_a_long_trial_waits_for_none(world: World) -> None:
    for task in world.live.tasks:
        task.over.clear()  # each is at a trial
    assert world.room(expect_s=2.0) is not None
    assert world.room(expect_s=20.0) is None


async def test_a_task_has_time_for_each_to_run_to_its_deadline(world: World) -> None:
    record, late = world.live.batch, world.live.tasks[1]
    late.started_at = loop_time() - (record.minutes * 60 - record.each_s)
    world.live.batch = record.model_copy(update={"open_s": 1e9})
    found = world.room()
    assert found is not None
    assert found.room == 1
    assert world.give(2) == []
    assert world.give(3) == []
    assert world.names() == [["t0", "t2", "t3"], ["t1"]]


async def test_where_as_many_are_as_can_run_trials_wait_for_the_first_that_is_free(
    world: World,
) -> None:
    for task in world.live.tasks:
        task.over.clear()
    assert world.room(expect_s=20.0, most=3) is None
    held = world.room(expect_s=20.0, most=2)
    assert held is not None
    assert held.room == 0
    assert held.pause_s > 0
    world.array(world.specs[2])  # one more, which waits in the queue
    assert world.room(expect_s=20.0, most=3) is not None


async def test_a_new_array_has_the_places_that_are_left(world: World) -> None:
    limits, plain = world.specs[9].limits, Capacity(50, 50, at_once=8, each=9, pack_s=60.0)
    found = world.running.room_for_array(plain, limits)
    assert (found.room, found.at_once, found.each) == (6, 6, 9)
    assert 0 < found.pack_s < plain.pack_s
    for task in world.live.tasks:
        task.message = 0
    assert world.running.room_for_array(plain, limits) == plain


async def test_what_comes_too_late_is_told(world: World) -> None:
    assert world.live.folder.inbox(0).write(1, Message())  # the task did
    assert world.give(2, 3) == ["t3"]
    assert world.names() == [["t0"], ["t1", "t2"]]


async def test_a_task_on_a_node_that_failed_is_given_nothing_more(world: World) -> None:
    world.live.tasks[0].node = "n1"
    assert world.give(2, avoid=("n1",)) == []
    assert world.names() == [["t0"], ["t1", "t2"]]
    assert world.live.folder.inbox(0).read(1) == Message()


async def test_an_idle_task_is_let_go_where_others_wait_for_its_place(world: World) -> None:
    idle, busy = world.live.tasks
    busy.over.clear()
    world.running.close_idle()
    assert idle.idle_since is not None
    idle.idle_since -= 1.5
    world.running.close_idle()
    assert idle.message == 1
    world.array(world.specs[2])
    world.running.close_idle()
    assert [task.message for task in (idle, busy)] == [0, 1]
    assert world.live.folder.inbox(0).read(1) == Message()


async def test_trials_are_gathered_as_long_as_none_could_begin(world: World) -> None:
    assert world.running.gather_s(1.0) == 1.0  # nobody knows how long they take
    world.live.expect_s = 1.0
    assert world.running.gather_s(1.0) < 0.1
    assert world.running.gather_s(0.0) == 0.0


async def test_the_next_driver_follows_what_was_given(world: World) -> None:
    world.give(2, 3)
    ledger = BatchLedger()
    given = adopt(ledger, world.submission)
    assert len(given) == 1
    assert ledger.runs() == {run_of(world.specs[n]) for n in range(4)}
    assert world.give(4, 5) == ["t4", "t5"]  # a driver that was thought to be gone


@pytest.mark.parametrize(
    ("most", "partitions", "longer"),
    [
        (HOURS, (), True),
        (0, (), False),
        (HOURS, (PartitionChoice(name="p", max_time=HOURS),), True),
        (HOURS, (PartitionChoice(name="p", max_time=13), PartitionChoice(name="q")), False),
    ],
)
async def test_the_time_limit_grows_as_far_as_the_same_place_takes_it(
    world: World, most: int, partitions: tuple[PartitionChoice, ...], longer: bool
) -> None:
    batch = make_batch([[world.specs[0]]], expect_s=1.0)
    record = record_of("c", world.submission, batch, 0.0)
    kept = accepting(record, SITE.model_copy(update={"partitions": partitions}), most)
    assert kept.open_s == STAY_S
    assert (kept.minutes > record.minutes) is longer
