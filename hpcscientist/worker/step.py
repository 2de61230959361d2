"""Runs one trial as a Slurm step inside an allocation.

`python -m hpcscientist.worker.step TRIAL_FOLDER RUN STEP_FOLDER`. It first writes the step's id
into its folder, so that the driver can cancel the step.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hpcscientist.execution.backends.steps import STEP_FILE
from hpcscientist.files.atomic import write_text
from hpcscientist.system.lean import start_quickly, without

MODULE = "hpcscientist.worker.step"


def main() -> None:
    """Run the trial that the command line names."""
    job, step = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_STEP_ID")
    if len(sys.argv) != 4 or not job or not step:
        sys.exit("hpcsci worker: this is run by Slurm, as a step of a job")
    trial, run, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    write_text(folder / STEP_FILE, f"{job}.{step}\n")
    start_quickly()
    with without("numpy", "cloudpickle"):
        from hpcscientist.worker.entry import run_trial  # noqa: PLC0415
    run_trial(trial, run)


if __name__ == "__main__":
    main()
