"""Rounds by name and not by number, accounting beside them, and when waiting is given up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from trialkit import Bench
from turned_loop import TurnedLoop

from hpcscientist.errors import SchedulerSilent
from hpcscientist.execution import presence
from hpcscientist.execution.backends.slurm.backend import Stops
from hpcscientist.execution.backends.slurm.batches import ArrayRecord, BatchFolder
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.watching.accounting import Accounting
from hpcscientist.execution.backends.slurm.watching.ledger import (
    ArrayTask,
    BatchLedger,
    LiveBatch,
    live_batch,
)
from hpcscientist.execution.backends.slurm.watching.progress import TaskProgress
from hpcscientist.execution.backends.slurm.watching.rounds import ABSENCES, Rounds
from hpcscientist.records.site import WatchSite
from hpcscientist.records.trial import Ended, EndState, RunId, Scored, Started, TrialReport, Usage
from hpcscientist.results.store import write_result

SEP = "\x1f"
NAME, COMMENT = "hpcsci-c1-b1", "hpcsci:c1:b1"


Believe = Callable[[LiveBatch, ArrayTask], object]


def doubt(live: LiveBatch, task: ArrayTask) -> None:
    """No result lies on disk."""


class Answers(Slurm):
    """Commands that answer what a test says; `slow` holds sacct up until it is set."""

    def __init__(self, squeue: str = "", sacct: str | Exception = "") -> None:
        super().__init__()
        self.squeue, self.sacct = squeue, sacct
        self.slow = threading.Event()
        self.slow.set()

    def run(self, program: str, *arguments: str, **_: object) -> str:  # type: ignore[override]
        self.counts[program] += 1
        if program == "squeue":
            return self.squeue
        assert self.slow.wait(60)
        if isinstance(self.sacct, Exception):
            raise self.sacct
        return self.sacct


def account(job: str, state: str, name: str = NAME, comment: str = "") -> str:
    return SEP.join((job, state, "0:0", "n1", name, comment, "1", "2")) + "\n"


def queued(job: str, task: str, state: str, *, name: str = NAME, partition: str = "p") -> str:
    fields = (job, task, state, "Priority", "", name, "", job, partition)
    return SEP.join(fields) + "\n"


def make(
    slurm: Slurm, tmp_path: Path, job: str | None = "7", tasks: int = 1, believe: Believe = doubt
) -> tuple[Rounds, LiveBatch]:
    batch = ArrayRecord(
        batch_id="b1",
        campaign_id="c1",
        trials_folder="",
        tasks=tuple((RunId(trial_id=f"t{number}", run=1),) for number in range(tasks)),
        cpus=1,
        gpus=0,
        memory_mb=1,
        minutes=1,
        created_at=100.0,
    )
    folder = BatchFolder(tmp_path / "b1")
    folder.write(batch)
    live = live_batch(batch, folder, job)
    ledger = BatchLedger()
    ledger.add(live)
    rounds = Rounds(
        *(slurm, ledger, "c1"),
        accounting=Accounting(slurm, "c1", lambda: None),
        believe=believe,
        silence_s=300.0,
    )
    return rounds, live


async def answered(rounds: Rounds) -> None:
    """Wait until accounting has answered, and heed it."""
    async with asyncio.timeout(60):
        while rounds.heed_accounting() is None:  # noqa: ASYNC110 (a thread answers)
            await asyncio.sleep(0.01)


def test_rounds_go_on_while_sacct_is_slow(tmp_path: Path) -> None:
    slurm = Answers(sacct=account("7_0", "CANCELLED"))
    slurm.slow.clear()
    rounds, live = make(slurm, tmp_path)

    async def play() -> None:
        for _ in range(3):
            await rounds.ask(True)
        assert slurm.counts == {"squeue": 3, "sacct": 1}  # one question at a time
        assert live.tasks[0].cause is None
        slurm.slow.set()
        await answered(rounds)
        assert live.tasks[0].cause is EndState.CANCELLED

    asyncio.run(play())


def test_a_task_that_came_back_meanwhile_is_not_ended_by_an_old_answer(tmp_path: Path) -> None:
    slurm = Answers(sacct=account("7_0", "NODE_FAIL") + account("7_1", "TIMEOUT"))
    slurm.slow.clear()
    rounds, live = make(slurm, tmp_path, tasks=2)

    async def play() -> None:
        await rounds.ask(True)
        slurm.squeue = queued("7", "0", "PENDING")  # Slurm runs it again
        await rounds.ask(True)
        slurm.slow.set()
        await answered(rounds)
        assert [task.cause for task in live.tasks] == [None, EndState.TIMEOUT]

    asyncio.run(play())


def test_results_on_disk_are_believed_before_accounting_is_asked(tmp_path: Path) -> None:
    """Its log is hidden yet, and its result is there."""
    bench = Bench(tmp_path / "bench").prepare()
    spec = bench.trial("predict()", "t0")
    trial = bench.run.trial("t0")
    presence.announce(trial, spec.run)
    report = TrialReport(
        trial_id="t0",
        run=spec.run,
        outcome=Scored(metrics={"accuracy": 0.5}),
        usage=Usage(started_at=1.0, ended_at=2.0),
    )
    write_result(trial, spec, report)
    slurm, ledger, told = Answers(), BatchLedger(), list[Started | Ended]()
    progress = TaskProgress(bench.run, WatchSite(), ledger, told.append)
    rounds, live = make(slurm, tmp_path, believe=progress.believe)
    ledger.add(live)

    async def play() -> None:
        await rounds.ask(True)
        assert slurm.counts["sacct"] == 0
        assert live.has_ended()

    asyncio.run(play())
    assert [change.state for change in told if isinstance(change, Ended)] == [EndState.ENDED]


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        (account("7_0", "FAILED"), EndState.FAILED),
        (account("7_0", "FAILED", name="allocation"), EndState.FAILED),
        (account("7_0", "FAILED", name="somebody-else"), EndState.LOST),
        (account("7_0", "FAILED", name="x", comment=COMMENT), EndState.FAILED),
        (account("8_0", "TIMEOUT"), EndState.TIMEOUT),  # 7 was a number in a notice
    ],
)
def test_a_row_counts_by_its_name_and_not_by_its_number(
    row: str, cause: EndState, tmp_path: Path
) -> None:
    rounds, live = make(Answers(sacct=row), tmp_path)

    async def play() -> None:
        for _ in range(ABSENCES):
            if live.tasks[0].cause is None:
                await rounds.ask(True)
                await answered(rounds)
        assert live.tasks[0].cause is cause

    asyncio.run(play())


def test_an_id_is_taken_from_the_queue_where_the_name_stands(tmp_path: Path) -> None:
    slurm = Answers(queued("99", "0", "RUNNING", name="mine"))
    rounds, live = make(slurm, tmp_path, "99")

    async def play() -> None:
        await rounds.ask(True)
        assert (live.job_id, live.confirmed) == ("99", False)
        slurm.squeue += queued("120", "0", "RUNNING") + queued("121", "0", "PENDING")
        found = await rounds.ask(True)
        assert (live.job_id, live.confirmed) == ("120", True)
        assert live.folder.job_id() == "120"
        assert found.unwanted == ["121"]  # a wrapper submitted it twice
        assert live.tasks[0].state == "RUNNING"

    asyncio.run(play())


@pytest.mark.parametrize(
    ("others", "reason", "partition", "after_s"),
    [
        ("", "QOSMaxGRESPerNode", "p", 60),
        ("", "QOSMaxGRESPerNode", "p,q", 1800),
        ("", "QOSMaxJobsPerUserLimit", "p", 600),
        (queued("9", "N/A", "RUNNING", name="hpcsci-c1-controller"), "QOSMaxCpuPerUser", "p", 600),
        (queued("9", "N/A", "RUNNING", name="another"), "QOSMaxCpuPerUser", "p", None),
        ("", "Priority", "p", None),
    ],
)
def test_when_waiting_is_given_up(
    others: str, reason: str, partition: str, after_s: int | None, tmp_path: Path
) -> None:
    row = queued("7", "0", "PENDING", partition=partition).replace("Priority", reason)
    rounds, _ = make(Answers(row + others), tmp_path)

    async def play() -> float | None:
        loop = asyncio.get_running_loop()
        while loop.time() < 2000:
            if (await rounds.ask(False)).hopeless:
                return loop.time()
            await asyncio.sleep(30)
        return None

    with asyncio.Runner(loop_factory=TurnedLoop) as runner:
        assert runner.run(play()) == after_s


@pytest.mark.parametrize("confirmed", [False, True])
def test_nothing_is_cancelled_by_an_id_that_only_sbatch_named(
    confirmed: bool, tmp_path: Path
) -> None:
    slurm = Answers(queued("7", "0", "RUNNING") if confirmed else "")
    rounds, live = make(slurm, tmp_path)
    ledger = BatchLedger()
    ledger.add(live)

    async def play() -> None:
        await rounds.ask(False)
        ledger.give_up([RunId(trial_id="t0", run=1)])
        stops = Stops(slurm, ledger)
        await stops.carry_out()
        assert bool(stops)
        assert slurm.counts["scancel"] == confirmed

    asyncio.run(play())


@pytest.mark.parametrize(("job", "lost"), [("7", True), (None, False)])
def test_what_accounting_is_silent_about_is_lost_after_a_while(
    job: str | None, lost: bool, tmp_path: Path
) -> None:
    slurm = Answers(sacct=SchedulerSilent("slurmdbd is down"))
    rounds, live = make(slurm, tmp_path, job)

    async def play() -> None:
        loop = asyncio.get_running_loop()
        begin, asked = loop.time(), 0
        while True:
            found = await rounds.ask(True)
            if found.lost:
                break
            await asyncio.sleep(15)
            rounds.heed_accounting()
        asked = slurm.counts["sacct"]
        assert 300 <= loop.time() - begin < 330
        assert asked == 6  # ever later, and not in each of 21 rounds
        assert (live.tasks[0].cause is EndState.LOST) == lost
        assert (found.void == [live]) == (not lost)

    with asyncio.Runner(loop_factory=TurnedLoop) as runner:
        runner.run(play())
