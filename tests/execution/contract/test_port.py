"""What every backend owes the campaign: see `ports`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence

from contract_kit import nothing_is_kept, outcome, until
from trialkit import CAMPAIGN, Bench

from hpcscientist.campaign.dispatcher import make_batch
from hpcscientist.execution import trial_outcome
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ports import Backend
from hpcscientist.records.trial import (
    NOTHING_LOST,
    Accepted,
    Batch,
    Change,
    Ended,
    EndState,
    IdeaFailed,
    Intent,
    MachineFailed,
    MachineFailure,
    RunId,
    Scored,
    Started,
    TrialSpec,
    run_of,
)
from hpcscientist.system import processes

Open = Callable[[RunPaths, int], Backend]
EXPECT_S, SHORT = 0.5, {"deadline_s": 120.0}  # an element has time for some to run so long


async def submit(backend: Backend, *specs: TrialSpec) -> None:
    """Submit each trial in an element of its own, as many a batch as the backend takes."""
    left = list(specs)
    while left:
        capacity = await backend.capacity(left[0])
        if not capacity.room:
            with contextlib.suppress(TimeoutError):  # as soon as something is freed, at the latest
                await asyncio.wait_for(backend.changes(), capacity.pause_s)
            continue
        count = min(capacity.room, capacity.batch_max)
        assert await backend.submit(make_batch([[spec] for spec in left[:count]])) == Accepted()
        del left[:count]


async def told(backend: Backend, *runs: RunId) -> list[Change]:
    """Take changes until each of these runs has ended."""
    changes: list[Change] = []
    while set(runs) - ended(changes):
        changes += await asyncio.wait_for(backend.changes(), 300)
    return changes


def of(changes: Sequence[Change], spec: TrialSpec) -> list[str]:
    """What was told of a run, in order."""
    found = [c for c in changes if isinstance(c, Started | Ended) and c.run == run_of(spec)]
    return ["started" if isinstance(c, Started) else c.state.value for c in found]


def ended(changes: Sequence[Change]) -> set[RunId]:
    """The runs whose end was told."""
    return {change.run for change in changes if isinstance(change, Ended)}


def end_of(changes: Sequence[Change], spec: TrialSpec) -> Ended:
    (found,) = [c for c in changes if isinstance(c, Ended) and c.run == run_of(spec)]
    return found


async def kill_workers(bench: Bench) -> None:
    for pid in processes.naming(bench.run.submission.absolute(), below=True):
        with contextlib.suppress(ProcessLookupError):  # it went with one that was ended before
            os.kill(pid, signal.SIGKILL)


async def test_each_run_is_told_one_start_and_one_end(bench: Bench, opened: Open) -> None:
    good, bad = bench.trial("predict()", "good"), bench.trial("raise ValueError('no')", "bad")
    backend = opened(bench.run, 2)
    assert list(await backend.adopt(())) == []
    await submit(backend, good, bad)
    changes = await told(backend, run_of(good), run_of(bad))
    await backend.sweep()
    await backend.close()
    assert of(changes, good) == of(changes, bad) == ["started", "ended"]
    assert isinstance(outcome(bench, good), Scored)
    assert isinstance(outcome(bench, bad), IdeaFailed)
    end = end_of(changes, good)
    assert end.began_at is not None
    assert end.began_at <= end.ended_at
    assert nothing_is_kept(bench)


async def test_cancelling_the_wait_for_changes_loses_none(bench: Bench, opened: Open) -> None:
    spec = bench.trial("predict()")
    backend = opened(bench.run, 1)
    await backend.adopt(())
    await submit(backend, spec)
    changes: list[Change] = []
    while "ended" not in of(changes, spec):
        waiting = asyncio.create_task(backend.changes())
        await asyncio.sleep(0)
        if not waiting.done():
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                changes += await waiting
            await asyncio.sleep(0.01)
            continue
        changes += await waiting
    await backend.sweep()
    await backend.close()
    assert of(changes, spec) == ["started", "ended"]


async def test_what_is_cancelled_has_its_end_and_nothing_of_it_goes_on(
    bench: Bench, opened: Open
) -> None:
    spec, other = bench.trial("linger('main')", "spec"), bench.trial("predict()", "other")
    backend = opened(bench.run, 2)
    await backend.adopt(())
    await submit(backend, spec, other)
    await until((bench.run.trial("spec").out / "main").exists)
    await until(lambda: outcome(bench, other) is not None)
    changes: list[Change] = []
    while "started" not in of(changes, spec):  # a backend sees a start a while after it
        changes += await asyncio.wait_for(backend.changes(), 300)
    await backend.cancel([run_of(spec)])
    assert not processes.marked(CAMPAIGN, "spec")
    changes += await told(backend, *({run_of(spec), run_of(other)} - ended(changes)))
    await backend.sweep()
    await backend.close()
    assert of(changes, spec) == ["started", "cancelled"]
    assert of(changes, other) == ["started", "ended"]
    assert outcome(bench, spec) is None


async def test_a_lost_worker_is_the_machine_s_and_its_words_are_told(
    bench: Bench, opened: Open
) -> None:
    spec = bench.trial("linger('main')")
    backend = opened(bench.run, 1)
    await backend.adopt(())
    await submit(backend, spec)
    await until((bench.run.trial(spec.trial_id).out / "main").exists)
    await kill_workers(bench)
    changes = await told(backend, run_of(spec))
    await backend.sweep()
    await backend.close()
    end = end_of(changes, spec)
    assert end.state not in NOTHING_LOST
    assert end.began_at is not None
    report = trial_outcome.classify_end(spec, end, None)
    assert report is not None
    assert isinstance(report.outcome, MachineFailed)
    assert report.outcome.failure is MachineFailure.LOST


async def test_there_is_room_again_once_a_run_has_ended(bench: Bench, opened: Open) -> None:
    one, two = bench.trial("predict()", "one"), bench.trial("predict()", "two")
    backend = opened(bench.run, 1)
    await backend.adopt(())
    await submit(backend, one)
    assert (await backend.capacity(two)).room == 0
    await told(backend, run_of(one))
    await submit(backend, two)
    changes = await told(backend, run_of(two))
    await backend.sweep()
    await backend.close()
    assert of(changes, two) == ["started", "ended"]


async def test_sweep_ends_what_is_left(bench: Bench, opened: Open) -> None:
    spec = bench.trial("linger('main')")
    backend = opened(bench.run, 1)
    await backend.adopt(())
    await submit(backend, spec)
    await until((bench.run.trial(spec.trial_id).out / "main").exists)
    await backend.sweep()
    await backend.close()
    await backend.close()
    assert not processes.marked(CAMPAIGN)
    assert outcome(bench, spec) is None
    assert nothing_is_kept(bench)


async def test_what_outlives_its_driver_is_followed_by_the_next(bench: Bench, opened: Open) -> None:
    spec = bench.trial(
        "note(f'run-{os.getpid()}'); await_file(TRIAL.parent.parent / 'go'); predict()"
    )
    first = opened(bench.run, 1)
    await first.adopt(())
    batch = make_batch([[spec]])
    assert await first.submit(batch) == Accepted()
    out = bench.run.trial(spec.trial_id).out
    await until(lambda: any(out.glob("run-*")))
    await first.close()
    if not first.outlives_driver:
        assert not processes.marked(CAMPAIGN)
        return
    second = opened(bench.run, 1)
    assert set(await second.adopt([Intent(batch.batch_id, batch.runs)])) == {run_of(spec)}
    (bench.run.root / "go").touch()
    changes = await told(second, run_of(spec))
    await second.sweep()
    await second.close()
    assert of(changes, spec) == ["started", "ended"]
    assert len(list(out.glob("run-*"))) == 1
    assert isinstance(outcome(bench, spec), Scored)


async def test_an_intent_that_came_to_nothing_costs_nothing(bench: Bench, opened: Open) -> None:
    """Its driver was killed before it told anybody but the journal."""
    spec = bench.trial("predict()")
    backend = opened(bench.run, 1)
    batch = make_batch([[spec]])
    followed = set(await backend.adopt([Intent(batch.batch_id, batch.runs)]))
    if followed:  # until it is known
        assert of(await told(backend, run_of(spec)), spec) == ["not_submitted"]
    await submit(backend, spec)
    changes = await told(backend, run_of(spec))
    await backend.sweep()
    await backend.close()
    assert of(changes, spec) == ["started", "ended"]


async def test_what_was_swept_is_run_again_and_that_costs_nothing(
    bench: Bench, opened: Open
) -> None:
    """Whoever swept recorded no ends: the next driver's journal still tells of the intent."""
    spec = bench.trial("await_file(TRIAL.parent.parent / 'go'); note('main'); predict()")
    first = opened(bench.run, 1)
    await first.adopt(())
    batch = make_batch([[spec]])
    assert await first.submit(batch) == Accepted()
    await until(lambda: bool(processes.marked(CAMPAIGN)))
    await first.sweep()
    await first.close()
    (bench.run.root / "go").touch()
    second = opened(bench.run, 1)
    if await second.adopt([Intent(batch.batch_id, batch.runs)]):
        (state,) = of(await told(second, run_of(spec)), spec)
        assert state in NOTHING_LOST
    await submit(second, spec)
    changes = await told(second, run_of(spec))
    await second.sweep()
    await second.close()
    assert of(changes, spec) == ["started", "ended"]
    assert isinstance(outcome(bench, spec), Scored)


async def test_a_run_that_is_given_up_while_it_is_submitted_does_not_go_on(
    bench: Bench, opened: Open
) -> None:
    spec = bench.trial("linger('main')")
    backend = opened(bench.run, 1)
    await backend.adopt(())
    assert (await backend.capacity(spec)).room
    submitting = asyncio.create_task(backend.submit(make_batch([[spec]])))
    await asyncio.sleep(0)  # it has been asked for; whatever it waits for comes later
    await backend.cancel([run_of(spec)])
    await submitting
    changes = await told(backend, run_of(spec))
    assert not processes.marked(CAMPAIGN)
    await backend.sweep()
    await backend.close()
    assert of(changes, spec)[-1] == "cancelled"


async def second_is_lost(bench: Bench, backend: Backend, *specs: TrialSpec) -> None:
    """Kill the worker at the second of three trials of an element; what is told is right."""
    one, two, three = specs
    await until((bench.run.trial(two.trial_id).out / "main").exists)
    await kill_workers(bench)
    changes = await told(backend, run_of(one), run_of(two), run_of(three))
    await backend.sweep()
    await backend.close()
    assert of(changes, one) == ["started", "ended"]
    assert of(changes, two)[0] == "started"
    assert end_of(changes, two).state in (EndState.FAILED, EndState.LOST)
    assert of(changes, three) == ["not_run"]


async def test_who_shares_an_element_with_one_that_is_lost_has_not_run(
    bench: Bench, opened: Open
) -> None:
    one, two, three = (
        bench.trial("predict()", "one"),
        bench.trial("linger('main')", "two"),
        bench.trial("predict()", "three"),
    )
    backend = opened(bench.run, 1)
    await backend.adopt(())
    if not backend.outlives_driver:
        assert (await backend.capacity(one)).each == 1
        return
    assert await backend.submit(make_batch([[one, two, three]])) == Accepted()
    await second_is_lost(bench, backend, one, two, three)


async def give(backend: Backend, *specs: TrialSpec) -> list[Batch]:
    """Submit trials that are expected to be short, one after another, as they find room."""
    batches = []
    for spec in specs:
        while not (await backend.capacity(spec, EXPECT_S)).room:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        batches.append(make_batch([[spec]], expect_s=EXPECT_S))
        assert await backend.submit(batches[-1]) == Accepted()
    return batches


def arrays(bench: Bench) -> int:
    return len(list(bench.run.submission.glob("*/batch.json")))


async def test_what_is_given_to_an_element_that_is_lost_has_not_run(
    bench: Bench, opened: Open
) -> None:
    one, two, three = (
        bench.trial(
            "note('up'); await_file(TRIAL.parent.parent / 'go'); predict()", "one", **SHORT
        ),
        bench.trial("linger('main')", "two", **SHORT),
        bench.trial("predict()", "three", **SHORT),
    )
    backend = opened(bench.run, 1)
    await backend.adopt(())
    if not backend.outlives_driver:
        await backend.close()
        return
    await give(backend, one)
    await until((bench.run.trial("one").out / "up").exists)
    await give(backend, two, three)
    assert arrays(bench) == 1
    (bench.run.root / "go").touch()
    await second_is_lost(bench, backend, one, two, three)
    assert nothing_is_kept(bench)


async def test_what_is_given_to_an_element_is_followed_by_the_next_driver(
    bench: Bench, opened: Open
) -> None:
    one, two = (
        bench.trial(
            "note(f'run-{os.getpid()}'); await_file(TRIAL.parent.parent / 'go'); predict()", name
        )
        for name in ("one", "two")
    )
    first = opened(bench.run, 1)
    await first.adopt(())
    if not first.outlives_driver:
        await first.close()
        return
    batches = await give(first, one)
    await until(lambda: any(bench.run.trial("one").out.glob("run-*")))
    batches += await give(first, two)
    assert arrays(bench) == 1
    await first.close()
    second = opened(bench.run, 1)
    intents = [Intent(batch.batch_id, batch.runs) for batch in batches]
    assert set(await second.adopt(intents)) == {run_of(one), run_of(two)}
    (bench.run.root / "go").touch()
    changes = await told(second, run_of(one), run_of(two))
    await second.sweep()
    await second.close()
    for spec in (one, two):
        assert of(changes, spec) == ["started", "ended"]
        assert isinstance(outcome(bench, spec), Scored)
        assert len(list(bench.run.trial(spec.trial_id).out.glob("run-*"))) == 1


async def test_what_was_given_to_an_element_can_be_given_up(bench: Bench, opened: Open) -> None:
    one, two = bench.trial("linger('main')", "one"), bench.trial("predict()", "two")
    backend = opened(bench.run, 1)
    await backend.adopt(())
    if not backend.outlives_driver:
        await backend.close()
        return
    await give(backend, one)
    await until((bench.run.trial("one").out / "main").exists)
    await give(backend, two)
    await backend.cancel([run_of(two)])
    changes = await told(backend, run_of(one), run_of(two))
    assert not processes.marked(CAMPAIGN)
    await backend.sweep()
    await backend.close()
    assert of(changes, one) == ["started", "not_run"]
    assert of(changes, two) == ["cancelled"]
    assert outcome(bench, two) is None
