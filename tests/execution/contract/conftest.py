"""The backends that the contract is held against. An adapter joins by an entry in KINDS."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # its kits

import executing_slurm
import pytest
from steps_kit import real_allocation, stand_in_allocation
from trialkit import CAMPAIGN, Bench, assert_nothing_runs

from hpcscientist.execution.backends.local import LocalBackend
from hpcscientist.execution.backends.slurm.backend import SlurmBackend
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.sweep import live_jobs
from hpcscientist.execution.backends.steps import JobAllocation, StepsBackend
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ports import Backend
from hpcscientist.records.site import Site, SlurmSite, WatchSite
from hpcscientist.worker import MODULE as WORKER_MODULE
from hpcscientist.worker.element import MODULE
from hpcscientist.worker.step import MODULE as STEP_MODULE

__all__ = ["real_allocation", "stand_in_allocation"]

Open = Callable[[RunPaths, int], Backend]
IMPATIENT = WatchSite(round_min_s=0.5, round_max_s=1.0, files_s=0.1, gather_s=0.1, visible_s=0.0)
KINDS = (
    "local",
    "slurm here",  # with a scheduler that runs arrays on this machine
    "steps here",  # with stand-ins for srun and scancel
    pytest.param("slurm", marks=pytest.mark.slurm),
    pytest.param("steps", marks=pytest.mark.slurm),
)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bench(kind: str, request: pytest.FixtureRequest) -> Bench:
    if kind in ("local", "slurm here", "steps here"):
        return Bench(request.getfixturevalue("tmp_path")).prepare()
    root = request.getfixturevalue("cluster").as_user(getpass.getuser())
    return Bench(request.getfixturevalue("shared"), str(root.python)).prepare()


@pytest.fixture
def allocation(kind: str, request: pytest.FixtureRequest) -> JobAllocation | None:
    fixture = {"steps here": "stand_in_allocation", "steps": "real_allocation"}.get(kind)
    held: JobAllocation | None = request.getfixturevalue(fixture) if fixture else None
    return held


@pytest.fixture
def scheduler(
    kind: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    if kind != "slurm here":
        yield
        return
    folder = tmp_path_factory.mktemp("slurm")
    commands = executing_slurm.install(folder)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    yield
    executing_slurm.end_everything(folder)


@pytest.fixture
def opened(
    kind: str, bench: Bench, allocation: JobAllocation | None, scheduler: None
) -> Iterator[Open]:
    site = Site(slurm=SlurmSite(python=bench.python, stay_s=300.0), watch=IMPATIENT)

    def backend(paths: RunPaths, slots: int) -> Backend:
        if kind == "local":
            return LocalBackend(paths, slots, WORKER_MODULE)
        if allocation is not None:
            return StepsBackend(paths, site, allocation, CAMPAIGN, STEP_MODULE, slots=slots)
        return SlurmBackend(paths, site, CAMPAIGN, MODULE, slots=slots)

    yield backend
    assert_nothing_runs()
    if kind.startswith("slurm"):
        assert live_jobs(Slurm(), CAMPAIGN) == []
