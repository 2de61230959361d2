"""What Slurm allows is read again: from time to time, and when asked to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from trialkit import Bench
from turned_loop import TurnedLoop

from hpcscientist.errors import SchedulerSilent
from hpcscientist.execution.backends.slurm.backend import SlurmBackend
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.limits import (
    ASK_AGAIN_S,
    READ_AGAIN_S,
    KnownLimits,
)
from hpcscientist.records.site import Site, SlurmSite


class Telling(Slurm):
    """Slurm with limits that a test changes; silent where `array` is None."""

    array: int | None = 1001
    queue = 100

    def run(self, program: str, *arguments: str, **_: object) -> str:  # type: ignore[override]
        self.counts[program] += 1
        if self.array is None:
            raise SchedulerSilent("it does not answer")
        if program == "sacctmgr":
            return f"research||{self.queue}|\n" if "associations" in arguments else ""
        if "partition" in arguments:
            return "PartitionName=batch Default=YES MaxTime=UNLIMITED TotalNodes=4 TotalCPUs=8\n"
        return (
            "AccountingStorageType = accounting_storage/slurmdbd\n"
            f"MaxArraySize = {self.array}\nMaxJobCount = 10000\n"
        )


SITE = SlurmSite()


@pytest.fixture
def slurm() -> Telling:
    return Telling()


def test_they_are_read_again_once_they_are_old(slurm: Telling) -> None:
    limits = KnownLimits(slurm)
    assert limits.are_due(SITE, 0.0)
    assert limits.last(SITE) is None
    read = limits.read(SITE, 0.0)
    assert (read.max_array, read.max_submit) == (1000, 100)
    assert not limits.are_due(SITE, READ_AGAIN_S - 1)
    assert limits.are_due(SITE, READ_AGAIN_S)
    slurm.array, slurm.queue = 51, 8
    read = limits.read(SITE, READ_AGAIN_S)
    assert (read.max_array, read.max_submit) == (50, 8)
    assert limits.last(SITE) == read


def test_an_array_is_as_large_as_the_limits_are_now(
    slurm: Telling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Slurm, "of", lambda site: slurm)
    bench = Bench(tmp_path / "bench").prepare()
    spec = bench.trial("finish()")

    async def play() -> list[int]:
        backend = SlurmBackend(bench.run, Site(), "c1", "a.module")
        found = [(await backend.capacity(spec)).room]
        slurm.array, slurm.queue = 51, 8
        found.append((await backend.capacity(spec)).room)
        await asyncio.sleep(READ_AGAIN_S)
        return [*found, (await backend.capacity(spec)).room]

    with asyncio.Runner(loop_factory=TurnedLoop) as runner:
        assert runner.run(play()) == [100, 100, 8]


def test_what_was_known_outlasts_silence(slurm: Telling) -> None:
    limits = KnownLimits(slurm)
    before = limits.read(SITE, 0.0)
    slurm.array = None
    assert limits.read(SITE, 10.0) == before
    assert not limits.are_due(SITE, 10.0 + ASK_AGAIN_S - 1)
    assert limits.are_due(SITE, 10.0 + ASK_AGAIN_S)


def test_silence_at_first_is_told(slurm: Telling) -> None:
    slurm.array = None
    limits = KnownLimits(slurm)
    with pytest.raises(SchedulerSilent):
        limits.read(SITE, 0.0)
    assert limits.are_due(SITE, 0.0)


def test_each_partition_has_its_own(slurm: Telling) -> None:
    limits = KnownLimits(slurm)
    limits.read(SITE, 0.0)
    assert limits.are_due(SlurmSite(partition="batch"), 0.0)
