"""What only the local backend has: adoption by command line, sweeping, GPUs, a full disk."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from trialkit import CAMPAIGN, Bench, assert_ended, assert_nothing_runs

from hpcscientist.campaign.dispatcher import Dispatcher
from hpcscientist.errors import DiskFull
from hpcscientist.execution import presence
from hpcscientist.execution.backends import local, process_backend
from hpcscientist.execution.backends.local import LocalBackend, sweep
from hpcscientist.execution.presence import Presence
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.records.trial import Ended, EndState, Scored
from hpcscientist.results.store import read_result
from hpcscientist.system import processes
from hpcscientist.worker import MODULE as WORKER_MODULE

DRIVER = """
import asyncio, pathlib, sys
from hpcscientist.campaign.dispatcher import Dispatcher
from hpcscientist.execution.backends.local import LocalBackend
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.records.trial import TrialSpec
from hpcscientist.worker import MODULE as WORKER_MODULE
paths = RunPaths(pathlib.Path(sys.argv[1]))
specs = [TrialSpec.model_validate_json(paths.trial(n).spec.read_bytes()) for n in sys.argv[2:]]
told = lambda spec: print("started", flush=True)

async def drive():
    backend = Dispatcher(LocalBackend(paths, len(specs), WORKER_MODULE))
    await backend.run(specs, told, lambda spec, ended: None)

asyncio.run(drive())
"""


def killed_driver(paths: RunPaths, *names: str, ready: list[Path]) -> None:
    """Start a driver, wait for files its trials write (or for the submission), kill -9 it."""
    command = [sys.executable, "-c", textwrap.dedent(DRIVER), str(paths.root), *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as driver:
        assert driver.stdout is not None
        for _ in names:
            assert driver.stdout.readline()
        while not all(path.exists() for path in ready):
            psutil.wait_procs([psutil.Process(driver.pid)], timeout=0.02)
            assert driver.poll() is None
        os.kill(driver.pid, signal.SIGKILL)


def nothing(*_: object) -> None:
    return None


def test_sweep_stops_what_a_killed_driver_left(bench: Bench) -> None:
    body = "daemon(linger); await_file(OUT / 'daemon'); linger('main')"
    names = ("one", "two")
    trials = [bench.run.trial(bench.trial(body, name).trial_id) for name in names]
    killed_driver(bench.run, *names, ready=[t.out / "main" for t in trials])
    assert sweep(bench.run) >= 2
    for paths in trials:
        assert presence.live_worker(paths) is None
        assert not paths.result.exists()
        assert_ended(paths, "daemon", "main")
    assert_nothing_runs()
    assert sweep(bench.run) == 0


async def until_gone(pids: list[int]) -> None:
    async with asyncio.timeout(300):
        while any(map(processes.is_alive, pids)):  # noqa: ASYNC110 (other processes)
            await asyncio.sleep(0.02)


async def test_what_killed_drivers_left_of_ended_jobs_is_removed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    for name in ("killed", "alive"):
        paths = bench.run.trial(bench.trial("linger('main')", name).trial_id)
        killed_driver(bench.run, name, ready=[paths.out / "main"])
    jobs = processes.naming(bench.run.submission.absolute() / "killed-1")
    processes.kill_trees(jobs)
    await until_gone([*jobs, *processes.marked(CAMPAIGN, "killed")])
    assert len(list((tmp_path / "scratch").iterdir())) == 2
    await Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE)).close()
    assert [folder.name for folder in bench.run.submission.iterdir()] == ["alive-1"]
    assert len(list((tmp_path / "scratch").iterdir())) == 1
    sweep(bench.run)
    process_backend.clear_submission(bench.run)
    assert list(bench.run.submission.iterdir()) == []
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_a_worker_that_died_with_its_driver_is_told_lost(bench: Bench) -> None:
    spec = bench.trial("linger('main')")
    paths = bench.run.trial(spec.trial_id)
    killed_driver(bench.run, spec.trial_id, ready=[paths.out / "main"])
    jobs = processes.naming(bench.run.submission.absolute(), below=True)
    processes.kill_trees(jobs)
    await until_gone(jobs)
    told: list[Ended | None] = []
    backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    await backend.run([spec], nothing, lambda spec, ended: told.append(ended))
    await backend.close()
    (ended,) = told
    assert ended is not None
    assert ended.state is EndState.LOST
    assert "driver" in ended.why
    assert ended.node
    assert_nothing_runs()


async def test_a_worker_that_was_stopped_on_purpose_is_not_lost(bench: Bench) -> None:
    spec = bench.trial("await_file(TRIAL.parent.parent / 'go') or predict()")
    paths = bench.run.trial(spec.trial_id)
    backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    call = asyncio.create_task(backend.run([spec], nothing, nothing))
    async with asyncio.timeout(300):
        while presence.live_worker(paths) is None:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.02)
    await backend.close()
    with pytest.raises(asyncio.CancelledError):
        await call
    (bench.run.root / "go").touch()
    again = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    told: list[Ended | None] = []
    await again.run([spec], nothing, lambda spec, ended: told.append(ended))
    assert [ended.state for ended in told if ended] == [EndState.ENDED]
    assert paths.result.exists()


async def test_the_deadline_of_a_worker_that_stands_still_is_kept_by_the_driver(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_OVERTIME_S", "_HELD_S"):
        monkeypatch.setattr(local, name, 0.5)
    monkeypatch.setattr(process_backend, "_PATIENCE_S", 0.1)
    # The worker would keep a deadline too, while it runs: only the driver knows of this one.
    spec = bench.trial("linger('main')", deadline_s=1e6)
    limits = spec.limits.model_copy(update={"deadline_s": 5.0})
    spec = spec.model_copy(update={"limits": limits})
    paths = bench.run.trial(spec.trial_id)
    told: list[Ended | None] = []
    backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    call = asyncio.create_task(backend.run([spec], nothing, lambda spec, ended: told.append(ended)))
    await suspend(paths)
    await asyncio.wait_for(call, 300)
    await backend.close()
    (ended,) = told
    assert ended is not None
    assert ended.state is EndState.LOST
    assert "traced" in ended.why
    assert_ended(paths, "main")


def test_sweep_of_an_empty_run_directory(tmp_path: Path) -> None:
    assert sweep(RunPaths(tmp_path)) == 0


async def test_a_job_that_had_not_begun_is_replaced(bench: Bench) -> None:
    body = "count = TRIAL.parent.parent / 'count'\ncount.open('a').write('x')\npredict()"
    spec = bench.trial(body)
    killed_driver(bench.run, spec.trial_id, ready=[])
    backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    await backend.run([spec], nothing, nothing)
    await backend.close()
    report = read_result(bench.run.trial(spec.trial_id))
    assert report is not None
    assert isinstance(report.outcome, Scored)
    assert not any(bench.run.submission.iterdir())
    assert_nothing_runs()


async def test_a_worker_of_another_host_counts_as_lost(bench: Bench) -> None:
    spec = bench.trial("predict()")
    paths = bench.run.trial(spec.trial_id)
    started = psutil.Process().create_time()
    elsewhere = Presence(host=socket.gethostname() + "x", pid=os.getpid(), started=started, run=1)
    paths.worker.write_text(elsewhere.model_dump_json())
    backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    await backend.run([spec], nothing, nothing)
    assert paths.result.exists()


async def suspend(paths: TrialPaths) -> None:
    """Stop (SIGSTOP) the worker of a trial once its candidate has begun."""
    async with asyncio.timeout(300):
        while not (paths.out / "main").exists():  # noqa: ASYNC110 (another process's file)
            await asyncio.sleep(0.02)
    worker = presence.live_worker(paths)
    assert worker is not None
    worker.suspend()


async def test_a_worker_that_does_not_listen_is_killed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_backend, "_PATIENCE_S", 0.5)
    spec = bench.trial("linger('main')")
    paths = bench.run.trial(spec.trial_id)
    backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    call = asyncio.create_task(backend.run([spec], nothing, nothing))
    await suspend(paths)
    await backend.close()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert presence.live_worker(paths) is None
    assert_ended(paths, "main")


async def test_a_worker_that_hangs_is_given_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_backend, "_PATIENCE_S", 0.1)
    hangs = False
    # Its time is up when it hangs, and not before.
    monkeypatch.setattr(local, "_longest_s", lambda trial: -1e6 if hangs else 600.0)
    spec = bench.trial("daemon(linger); await_file(OUT / 'daemon'); linger('main')", deadline_s=1e6)
    paths = bench.run.trial(spec.trial_id)
    told: list[Ended | None] = []
    backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    call = asyncio.create_task(backend.run([spec], nothing, lambda spec, ended: told.append(ended)))
    await suspend(paths)  # it hears no SIGTERM either
    assert not told
    hangs = True
    await asyncio.wait_for(call, 300)
    (ended,) = told
    assert ended is not None
    assert (ended.state, ended.why) == (EndState.LOST, "the worker hung")
    assert presence.live_worker(paths) is None
    assert_ended(paths, "daemon", "main")
    assert_nothing_runs()
    assert not paths.result.exists()
    assert list(bench.run.submission.iterdir()) == []
    await backend.close()


def test_a_worker_has_the_time_that_its_scorer_may_take(bench: Bench) -> None:
    spec = bench.trial("predict()")
    limits = spec.limits.model_copy(update={"scorer_s": spec.limits.scorer_s + 1000.0})
    longer = spec.model_copy(update={"limits": limits})
    assert local._longest_s(longer) == local._longest_s(spec) + 1000.0


@pytest.mark.parametrize(("asked", "has"), [(0, ("4", "5")), (1, ("4",)), (2, ("4", "5"))])
async def test_a_worker_has_the_gpus_of_its_own(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, asked: int, has: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    spec = bench.trial("predict()")
    spec = spec.model_copy(update={"limits": spec.limits.model_copy(update={"gpus": asked})})
    backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    await backend.run([spec], nothing, nothing)
    await backend.close()
    worker = presence.read(bench.run.trial(spec.trial_id))
    assert worker is not None
    assert worker.gpus == has


async def parent_of_worker(bench: Bench, backend: Dispatcher, name: str) -> psutil.Process:
    """Run a trial; return what its worker was a child of."""
    spec = bench.trial("note('main'); await_file(TRIAL / 'go'); predict()", name)
    paths = bench.run.trial(spec.trial_id)
    call = asyncio.create_task(backend.run([spec], nothing, nothing))
    async with asyncio.timeout(300):
        while not (paths.out / "main").exists():  # noqa: ASYNC110 (another process's file)
            await asyncio.sleep(0.02)
    worker = presence.live_worker(paths)
    assert worker is not None
    assert worker.pid in processes.naming((bench.run.submission / f"{name}-1").absolute())
    assert os.getsid(worker.pid) == worker.pid
    parent = worker.parent()
    assert parent is not None
    (paths.root / "go").touch()
    await call
    assert paths.result.exists()
    return parent


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is, a process that can fork is waited for."""
    for name in ("_READY_S", "_ANSWER_S", "_ENDS_S"):
        monkeypatch.setattr(local, name, 300.0)


@pytest.mark.usefixtures("patient")
async def test_workers_are_forks_of_one_process_that_ends_with_the_backend(bench: Bench) -> None:
    backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    first = await parent_of_worker(bench, backend, "one")
    assert await parent_of_worker(bench, backend, "two") == first
    assert first.parent() == psutil.Process()
    await backend.close()
    assert not first.is_running()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_process_that_forks_no_more_is_replaced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    forks = await parent_of_worker(bench, backend, "one")
    with monkeypatch.context() as hurried:
        for name in ("_ANSWER_S", "_ENDS_S"):
            hurried.setattr(local, name, 0.1)
        forks.send_signal(number)
        assert await parent_of_worker(bench, backend, "two") == psutil.Process()
        assert not forks.is_running()
    again = await parent_of_worker(bench, backend, "three")
    assert again not in (forks, psutil.Process())
    await backend.close()


async def test_where_no_process_can_fork_workers_start_by_themselves(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_FORK", "no-such-folder")
    backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    assert await parent_of_worker(bench, backend, "one") == psutil.Process()
    await backend.close()


async def test_no_space_to_submit_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    with pytest.raises(DiskFull, match="make room"):
        await backend.run([bench.trial("predict()")], nothing, nothing)


async def test_a_worker_runs_without_numpy_and_threads(bench: Bench) -> None:
    spec = bench.trial("linger('main')")
    paths = bench.run.trial(spec.trial_id)
    backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
    call = asyncio.create_task(backend.run([spec], nothing, nothing))
    await suspend(paths)
    worker = presence.live_worker(paths)
    assert worker is not None
    known = Path(f"/proc/{worker.pid}/maps").read_text()
    assert worker.num_threads() == 1, "what a thread held stays held in what is forked beside it"
    worker.resume()
    await backend.close()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert "pyarrow" in known
    assert "numpy" not in known
