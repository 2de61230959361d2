from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpcscientist.execution.backends.slurm import controller_job
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.controller_job import ControllerJob
from hpcscientist.records.site import ControllerSite, PartitionChoice, Site, SlurmSite


def job(run_dir: str = "/work/run", **site: object) -> ControllerJob:
    root = Path(run_dir)
    return ControllerJob(
        campaign_id="digits-1a2b",
        run_dir=root,
        log=root / ".driver" / "controller-%j.log",
        nodes=4,
        site=Site.model_validate(site),
        python="/opt/python",
    )


def test_script_in_full() -> None:
    site = {
        "slurm": SlurmSite(
            account="physics",
            partition="cpu",
            qos="long",
            modules=("python",),
            setup=("ulimit -c 0",),
        ),
        "controller": ControllerSite(
            partition="gpu", gpus=2, cpus=4, minutes=60, stop_before_s=90, extra=("--exclusive",)
        ),
    }
    assert (
        controller_job.script(job(**site))
        == """\
#!/bin/bash
#SBATCH --job-name=hpcsci-digits-1a2b-controller
#SBATCH --comment=hpcsci:digits-1a2b:controller
#SBATCH --account=physics
#SBATCH --partition=gpu
#SBATCH --qos=long
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=2048M
#SBATCH --gres=gpu:2
#SBATCH --time=60
#SBATCH --signal=B:USR1@90
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --propagate=NONE
#SBATCH --output="/work/run/.driver/controller-%j.log"
#SBATCH --exclusive
module load python
ulimit -c 0
exec /opt/python -P -u -m hpcscientist.cli.main controller /work/run
"""
    )


@pytest.mark.parametrize(
    ("slurm", "expected"),
    [
        ({"memory": "mem-per-cpu"}, ["--mem-per-cpu=1024M"]),
        ({"memory": "none"}, []),
        ({"memory": "mem"}, ["--mem=2048M"]),
    ],
)
def test_memory_is_asked_for_as_the_site_wants(
    slurm: dict[str, object], expected: list[str]
) -> None:
    given = job(slurm=SlurmSite.model_validate(slurm), controller=ControllerSite(cpus=2))
    assert [o for o in controller_job.options(given) if "mem" in o] == expected


def test_nothing_is_asked_for_that_is_not_needed() -> None:
    said = "\n".join(controller_job.options(job()))
    for option in ("account", "partition", "qos", "constraint", "gres", "exclude"):
        assert f"--{option}" not in said
    assert "--no-requeue" in controller_job.options(job(slurm=SlurmSite(requeue=False)))


def test_odd_run_directory_survives_the_shell_and_sbatch() -> None:
    script = controller_job.script(job("""/work/my run's "100%" \\dir"""))
    assert '--output="/work/my run\'s \\"100%%\\" \\\\dir/.driver/controller-%j.log"' in script
    last = script.splitlines()[-1].replace("exec /opt/python", "printf '%s\\n'")
    shown = subprocess.run(["bash", "-c", last], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == """/work/my run's "100%" \\dir"""


class Queue(Slurm):
    """A queue without the job, then with those of `jobs`; sbatch names `said`."""

    def __init__(self, said: str, jobs: tuple[str, ...]) -> None:
        super().__init__()
        self.said, self.jobs = said, jobs
        self.cancelled: list[str] = []

    def run(self, program: str, *arguments: str, **_: object) -> str:  # type: ignore[override]
        self.counts[program] += 1
        if program == "scancel":
            self.cancelled += [word for word in arguments if word.isdigit()]
        name = "hpcsci-digits-1a2b-controller"
        rows = [(job, "N/A", "PENDING", "", "", name, "", job, "p") for job in self.jobs]
        shown = program == "squeue" and self.counts["squeue"] > 1
        return "".join("\x1f".join(row) + "\n" for row in rows) if shown else ""

    def submit(self, *arguments: str, **_: object) -> str:
        return self.said


@pytest.mark.parametrize(
    ("said", "jobs", "found", "cancelled"),
    [
        ("100", ("100",), ("100", True), []),
        ("99", ("100",), ("100", True), []),  # 99 stood in a notice: another job of the user's
        ("100", (), ("100", True), []),  # not to be seen yet
        ("101", ("100", "101"), ("100", False), ["101"]),  # two launches side by side
        ("100", ("100", "101"), ("100", True), []),
        ("99", ("100", "101"), ("100", False), ["101"]),
    ],
)
def test_a_controller_is_known_by_its_name(
    said: str, jobs: tuple[str, ...], found: tuple[str, bool], cancelled: list[str]
) -> None:
    queue = Queue(said, jobs)
    assert controller_job.ensure(queue, job()) == found
    assert queue.cancelled == cancelled


def test_a_controller_gets_its_profile_s_cluster_and_options() -> None:
    site = {
        "slurm": SlurmSite(cluster="teach", gpu_option="gpus-per-node", qos="normal"),
        "partitions": (PartitionChoice(name="day", max_time="1-0"), PartitionChoice(name="week")),
        "controller": ControllerSite(
            minutes=2880, gpus=2, extra=("--gres=lscratch:5", "--export=ALL,A=b")
        ),
    }
    asked = controller_job.options(job(**site))
    for option in (
        *("--clusters=teach", "--partition=week", "--qos=normal", "--gpus-per-node=2"),
        *("--gres=lscratch:5", "--export=ALL,A=b"),
    ):
        assert option in asked


def test_a_job_s_environment_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "2048")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    monkeypatch.setenv("SBATCH_ACCOUNT", "physics")
    assert controller_job.leave_job() == "17"
    assert {"SLURM_CONF", "SBATCH_ACCOUNT"} <= set(os.environ)
    assert not {"SLURM_JOB_ID", "SLURM_MEM_PER_NODE"} & set(os.environ)
    assert controller_job.leave_job() == ""
