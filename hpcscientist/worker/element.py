"""Runs the trials of one Slurm array task, one after another, and those added meanwhile.

`python -m hpcscientist.worker.element BATCH_FOLDER`, with the task's number in
SLURM_ARRAY_TASK_ID. A task that Slurm requeues does not rerun finished trials.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from hpcscientist.execution.backends.slurm.batches import BatchFolder
from hpcscientist.system.lean import start_quickly, without

MODULE = "hpcscientist.worker.element"


def run_element(folder: Path, task: int) -> int:
    """Run the trials of one array task; return how many could not be run.

    If a trial raises, its error is printed and the others still run. Raises SystemExit when the
    task is stopped.
    """
    with without("numpy", "cloudpickle"):
        from hpcscientist.worker.entry import run_trial  # noqa: PLC0415
    place = BatchFolder(folder)
    batch = place.read()
    if batch is None:
        sys.exit(f"hpcsci worker: there is no batch in {folder}; is it on a shared file system?")
    failed = 0
    for slot in place.runs(batch, task):
        try:
            run_trial(str(Path(batch.trials_folder) / slot.trial_id), slot.run)
        except Exception:  # noqa: BLE001 (the driver sees the missing result, people the log)
            traceback.print_exc()
            failed += 1
    return failed


def main() -> None:
    """Run the array task that the environment names."""
    number = os.environ.get("SLURM_ARRAY_TASK_ID")
    if len(sys.argv) != 2 or number is None:
        sys.exit("hpcsci worker: this is run by Slurm, as an array task")
    start_quickly()
    sys.exit(1 if run_element(Path(sys.argv[1]), int(number)) else 0)


if __name__ == "__main__":
    main()
