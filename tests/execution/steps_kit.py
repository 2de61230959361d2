"""An allocation to run steps in: Slurm's own, or stand-ins for srun and scancel on this machine.

The stand-ins run a step as a process, whose number is the step's. As the real ones, `srun` ends
its step outright on SIGTERM, and leaves it alone where it is killed itself.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_kit import Cluster, beside_the_nodes

from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.steps import JobAllocation, find_allocation

JOB = "4711"
SRUN = f"""\
#!{sys.executable} -S
import os, signal, sys
shell = sys.argv.index("/bin/sh")
assert "--jobid={JOB}" in sys.argv[:shell], sys.argv
child = os.fork()
if child == 0:
    os.environ.update(SLURM_JOB_ID="{JOB}", SLURM_STEP_ID=str(os.getpid()))
    os.chdir("/")
    os.execv(sys.argv[shell], sys.argv[shell:])
signal.signal(signal.SIGTERM, lambda number, frame: os.kill(child, signal.SIGKILL))
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(code if code >= 0 else 128 - code)
"""
SCANCEL = f"""\
#!{sys.executable} -S
import os, signal, sys
job, step = sys.argv[2].split(".")
assert job == "{JOB}", sys.argv
try:
    os.kill(int(step), getattr(signal, "SIG" + sys.argv[1].removeprefix("--signal=")))
except ProcessLookupError:
    sys.exit("scancel: error: Kill job error on job step id %s: Invalid job id" % sys.argv[2])
"""
HOLD = (
    "--nodes=2",
    "--ntasks-per-node=1",
    "--cpus-per-task=2",
    "--mem=8000M",
    "--job-name=hpcsci-test-steps",
    "--output=/dev/null",
)
PATIENCE_S = 120


@pytest.fixture
def stand_in_allocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobAllocation:
    """Commands that stand in for Slurm's, first on PATH, and an allocation of one node."""
    folder = tmp_path / "commands"
    folder.mkdir()
    for name, text in (("srun", SRUN), ("scancel", SCANCEL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return JobAllocation(JOB, ("here",))


@pytest.fixture
def real_allocation(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobAllocation]:
    """A job of two nodes that does nothing; skipped where there is no Slurm.

    Steps begin beside the nodes, as they do in a job, wherever this process is.
    """
    before, more = beside_the_nodes()
    if before:
        words = [*before, "env", *(f"{k}={v}" for k, v in more.items()), shutil.which("srun")]
        folder = tmp_path / "commands"
        folder.mkdir()
        (folder / "srun").write_text(f'#!/bin/sh\nexec {" ".join(map(str, words))} "$@"\n')
        (folder / "srun").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    slurm = Slurm()
    job_id = slurm.run("sbatch", "--parsable", *HOLD, "--wrap=sleep 3600", "--chdir=/").strip()
    try:
        yield _once_it_runs(slurm, job_id)
    finally:
        slurm.run("scancel", job_id)


def _once_it_runs(slurm: Slurm, job_id: str) -> JobAllocation:
    until = time.monotonic() + PATIENCE_S
    while slurm.run("squeue", "--noheader", f"--jobs={job_id}", "--format=%T").strip() != "RUNNING":
        if time.monotonic() > until:
            pytest.skip(f"NOT TESTED: no two nodes were free within {PATIENCE_S} s")
        time.sleep(0.5)
    return find_allocation(slurm, job_id)
