"""An array task whose trials are scored immediately, to measure the driver alone."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from hpcscientist.execution import presence
from hpcscientist.execution.backends.slurm.batches import BatchFolder
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.trial import Scored, TrialReport, TrialSpec, Usage
from hpcscientist.results.store import write_result

MODULE = "hpcscientist.bench.slurm.instant"


def run_element(folder: Path, task: int) -> None:
    """Write for each trial of an array task what a worker writes."""
    place = BatchFolder(folder)
    batch = place.read()
    assert batch is not None
    for slot in place.runs(batch, task):
        paths = TrialPaths(Path(batch.trials_folder) / slot.trial_id)
        spec = TrialSpec.model_validate_json(paths.spec.read_bytes())
        presence.announce(paths, slot.run)
        now = time.time()
        report = TrialReport(
            trial_id=slot.trial_id,
            run=slot.run,
            outcome=Scored(metrics={metric.name: 0.5 for metric in spec.metrics}),
            usage=Usage(started_at=now, ended_at=now),
        )
        write_result(paths, spec, report)


if __name__ == "__main__":
    run_element(Path(sys.argv[1]), int(os.environ["SLURM_ARRAY_TASK_ID"]))
