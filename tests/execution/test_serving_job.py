"""The job that serves models: its script, its submission, its place in the queue."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcscientist.execution.backends.slurm import controller_job
from hpcscientist.execution.backends.slurm.controller_job import ServingJob
from hpcscientist.records.site import ControllerSite, Site, SlurmSite


def job(folder: str = "/data/plane", **site: object) -> ServingJob:
    root = Path(folder)
    return ServingJob(
        owner="plane-1a2b",
        folder=root,
        log=root / "logs" / "job-%j.log",
        nodes=2,
        site=Site.model_validate(site),
        python="/opt/python",
    )


def test_script_in_full() -> None:
    site = {
        "slurm": SlurmSite(account="physics", partition="cpu", modules=("cuda",), requeue=True),
        "controller": ControllerSite(
            partition="gpu", gpus=4, cpus=16, memory_mb=64_000, minutes=90
        ),
    }
    assert (
        controller_job.serving_script(job(**site))
        == """\
#!/bin/bash
#SBATCH --job-name=hpcsci-plane-1a2b-serve
#SBATCH --comment=hpcsci:plane-1a2b:serve
#SBATCH --account=physics
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=64000M
#SBATCH --gres=gpu:4
#SBATCH --time=90
#SBATCH --signal=B:USR1@120
#SBATCH --no-requeue
#SBATCH --open-mode=append
#SBATCH --propagate=NONE
#SBATCH --output="/data/plane/logs/job-%j.log"
module load cuda
exec /opt/python -P -u -m hpcscientist.cli.main serve --as-submitted --dir /data/plane
"""
    )


def test_odd_folder_survives_the_shell() -> None:
    script = controller_job.serving_script(job("""/data/my model's "100%" \\dir"""))
    last = script.splitlines()[-1].replace("exec /opt/python", "printf '%s\\n'")
    shown = subprocess.run(["bash", "-c", last], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == """/data/my model's "100%" \\dir"""


@pytest.mark.parametrize("python", ["/opt/python", "apptainer exec image.sif python3"])
def test_python_may_be_a_command(python: str) -> None:
    given = ServingJob("p", Path("/f"), Path("/f/l"), 1, Site(), python)
    assert f"exec {python} -P -u -m hpcscientist" in controller_job.serving_script(given)
