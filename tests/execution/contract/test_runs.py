"""What a campaign may rely on, whatever its trials run on: a dispatcher with each backend."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from contract_kit import no_end, no_start, nothing_is_kept, outcome, until
from trialkit import CAMPAIGN, Bench, assert_gone

from hpcscientist.campaign.dispatcher import Dispatcher
from hpcscientist.execution import presence
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ports import Backend
from hpcscientist.records.trial import Ended, IdeaFailed, Scored, TrialSpec
from hpcscientist.results.store import read_result
from hpcscientist.system import processes
from hpcscientist.worker import MODULE as WORKER_MODULE

Make = Callable[[RunPaths, int], Dispatcher]


@pytest.fixture
def make(opened: Callable[[RunPaths, int], Backend]) -> Make:
    return lambda paths, slots: Dispatcher(opened(paths, slots))


async def test_runs_to_a_result_whatever_the_candidate_does(bench: Bench, make: Make) -> None:
    good = bench.trial("predict()", "good")
    bad = bench.trial("raise ValueError('no')", "bad")
    started: list[str] = []
    backend = make(bench.run, 2)
    await backend.run([good, bad], lambda spec: started.append(spec.trial_id), no_end)
    await backend.close()
    assert outcome(bench, good) == Scored(metrics={"accuracy": 0.75})
    assert isinstance(outcome(bench, bad), IdeaFailed)
    assert sorted(started) == ["bad", "good"]
    assert nothing_is_kept(bench)


async def test_each_end_is_told_when_it_comes(bench: Bench, make: Make) -> None:
    # The second trial ends only after the end of the first was told.
    first = bench.trial("predict()", "first")
    second = bench.trial("await_file(TRIAL.parent.parent / 'go'); predict()", "second")
    ended: list[str] = []

    def on_end(spec: TrialSpec, end: Ended | None) -> None:
        assert outcome(bench, spec) is not None
        ended.append(spec.trial_id)
        (bench.run.root / "go").touch()

    backend = make(bench.run, 2)
    await backend.run([first, second], no_start, on_end)
    await backend.close()
    assert ended == ["first", "second"]


async def test_runs_as_many_at_once_as_there_are_slots(bench: Bench, make: Make) -> None:
    # Each of two waits for the other: they end only if they run at the same time. A
    # third one would see both still running if it started too early.
    pair = [
        bench.trial(
            f"note('up'); await_file(TRIAL.parent / '{other}' / 'out' / 'up'); predict()", me
        )
        for me, other in (("a", "b"), ("b", "a"))
    ]
    third = bench.trial(
        "done = [(TRIAL.parent / n / 'out' / 'predictions.csv').exists() for n in 'ab']\n"
        "predict() if any(done) else sys.exit('too early')",
        "c",
    )
    backend = make(bench.run, 2)
    await asyncio.gather(*(backend.run([spec], no_start, no_end) for spec in (*pair, third)))
    await backend.close()
    assert all(isinstance(outcome(bench, spec), Scored) for spec in (*pair, third))


async def test_earlier_calls_go_first(bench: Bench, make: Make) -> None:
    specs = [bench.trial("predict()", name) for name in "dacb"]
    order: list[str] = []
    backend = make(bench.run, 1)
    calls = [backend.run(specs[:2], lambda s: order.append(s.trial_id), no_end)]
    calls += [backend.run([spec], lambda s: order.append(s.trial_id), no_end) for spec in specs[2:]]
    await asyncio.gather(*calls)
    await backend.close()
    assert order == list("dacb")


@pytest.mark.parametrize("kind", ["local"], indirect=True)  # Slurm's own: test_slurm_backend
async def test_a_worker_left_by_a_killed_driver_is_waited_for(bench: Bench, make: Make) -> None:
    spec = bench.trial(
        "note(f'run-{os.getpid()}')\nawait_file(TRIAL.parent.parent / 'go')\npredict()"
    )
    paths = bench.run.trial(spec.trial_id)
    started: list[str] = []
    with subprocess.Popen([sys.executable, "-m", WORKER_MODULE, str(paths.root)]) as worker:  # noqa: ASYNC220
        await until(lambda: any(paths.out.glob("run-*")))
        backend = make(bench.run, 1)
        call = asyncio.create_task(
            backend.run([spec], lambda s: started.append(s.trial_id), no_end)
        )
        await until(lambda: bool(started))
        assert not call.done()
        (bench.run.root / "go").write_text("")
        await call
        await backend.close()
        assert worker.wait(300) == 0
    assert isinstance(outcome(bench, spec), Scored)
    assert len(list(paths.out.glob("run-*"))) == 1


async def test_a_worker_of_an_earlier_run_is_not_taken_for_this_one(
    bench: Bench, make: Make
) -> None:
    spec = bench.trial("predict()", run=2)
    presence.announce(bench.run.trial(spec.trial_id), 1)  # this very process, which lives on
    backend = make(bench.run, 1)
    await backend.run([spec], no_start, no_end)
    await backend.close()
    assert isinstance(outcome(bench, spec), Scored)


async def test_cancelling_leaves_no_process(bench: Bench, make: Make) -> None:
    running = bench.trial("daemon(linger); await_file(OUT / 'daemon'); linger('main')", "running")
    queued = bench.trial("predict()", "queued")
    paths = bench.run.trial("running")
    started: list[str] = []
    backend = make(bench.run, 1)
    call = asyncio.create_task(
        backend.run([running, queued], lambda s: started.append(s.trial_id), no_end)
    )
    await until(lambda: bool(started) and (paths.out / "main").exists())
    left = processes.marked(CAMPAIGN)  # by mark: a node may number its processes anew
    assert len(left) >= 2
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    for pid in left:
        assert_gone(pid)
    assert presence.live_worker(paths) is None
    assert started == ["running"]
    assert outcome(bench, running) is None
    assert nothing_is_kept(bench)
    await backend.close()


async def test_cancelling_at_once_leaves_no_process(bench: Bench, make: Make) -> None:
    # The worker is still starting then, and knows of no signal yet.
    spec = bench.trial("linger()")
    started: list[str] = []
    backend = make(bench.run, 1)
    call = asyncio.create_task(backend.run([spec], lambda s: started.append(s.trial_id), no_end))
    await until(lambda: bool(started))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert presence.live_worker(bench.run.trial(spec.trial_id)) is None
    assert nothing_is_kept(bench)


async def test_close_stops_what_runs_and_may_be_repeated(bench: Bench, make: Make) -> None:
    spec = bench.trial("linger('main')")
    paths = bench.run.trial(spec.trial_id)
    backend = make(bench.run, 1)
    call = asyncio.create_task(backend.run([spec], no_start, no_end))
    await until((paths.out / "main").exists)
    (main,) = processes.marked(CAMPAIGN)
    await asyncio.gather(backend.close(), backend.close())
    await backend.close()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert_gone(main)
    assert outcome(bench, spec) is None


async def test_a_lost_worker_ends_the_trial_without_a_result(
    bench: Bench, make: Make, kind: str
) -> None:
    # What leaves the worker's tree is the site's process tracking to end; this one's has none.
    daemon = "daemon(linger); await_file(OUT / 'daemon'); " if kind == "local" else ""
    spec = bench.trial(f"{daemon}linger('main')")
    paths = bench.run.trial(spec.trial_id)
    backend = make(bench.run, 1)
    call = asyncio.create_task(backend.run([spec], no_start, no_end))
    await until((paths.out / "main").exists)
    left = processes.marked(CAMPAIGN)
    assert left
    for pid in processes.naming(bench.run.submission.absolute(), below=True):
        with contextlib.suppress(ProcessLookupError):  # it went with one that was ended before
            os.kill(pid, signal.SIGKILL)
    await call
    await backend.close()
    assert outcome(bench, spec) is None
    for pid in left:
        assert_gone(pid)
    assert nothing_is_kept(bench)


async def test_a_failing_on_start_stops_the_trial_and_is_passed_on(
    bench: Bench, make: Make
) -> None:
    def fail(spec: TrialSpec) -> None:
        raise OSError(28, "No space left on device")

    backend = make(bench.run, 1)
    with pytest.raises(OSError, match="No space"):
        await backend.run([bench.trial("linger()")], fail, no_end)
    again = bench.trial("predict()", "again")
    await backend.run([again], no_start, no_end)  # the slot came back
    await backend.close()
    assert isinstance(outcome(bench, again), Scored)


async def test_a_rerun_replaces_an_old_result(bench: Bench, make: Make) -> None:
    spec = bench.trial("predict()")
    paths = bench.run.trial(spec.trial_id)
    backend = make(bench.run, 1)
    await backend.run([spec], no_start, no_end)
    first = paths.result.read_bytes()
    await backend.run([spec], no_start, no_end)  # the same run: nothing is run twice
    assert paths.result.read_bytes() == first
    again = spec.model_copy(update={"run": 2})
    paths.spec.write_text(again.model_dump_json())
    await backend.run([again], no_start, no_end)
    await backend.close()
    report = read_result(paths)
    assert report is not None
    assert report.run == 2
