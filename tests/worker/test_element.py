from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from trialkit import Bench

from hpcscientist.campaign.dispatcher import make_batch
from hpcscientist.execution.backends.slurm.batches import BatchFolder, record_of
from hpcscientist.records.trial import Scored, TrialSpec
from hpcscientist.results.store import read_result
from hpcscientist.worker import element

ELEMENT = "import sys; from hpcscientist.worker import element; element.main()"


def submitted(bench: Bench, *tasks: list[TrialSpec]) -> BatchFolder:
    folder = BatchFolder(bench.root / "batch")
    folder.write(record_of("c1", bench.run.trials, make_batch(tasks), time.time()))
    return folder


def run(folder: Path, task: str, code: str = ELEMENT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        env=os.environ | {"SLURM_ARRAY_TASK_ID": task},
        capture_output=True,
        text=True,
        check=False,
    )


def test_runs_the_trials_of_its_task_one_after_another(bench: Bench) -> None:
    other, *mine = (bench.trial("predict()", f"t{number}") for number in range(3))
    folder = submitted(bench, [other], mine)
    done = run(folder.root, "1")
    assert (done.returncode, done.stderr) == (0, "")
    outcomes = [read_result(bench.run.trial(spec.trial_id)) for spec in mine]
    assert all(report and isinstance(report.outcome, Scored) for report in outcomes)
    assert read_result(bench.run.trial(other.trial_id)) is None


def test_imports_no_numpy(bench: Bench) -> None:
    folder = submitted(bench, [bench.trial("predict()")])
    code = (
        f"{ELEMENT.removesuffix('element.main()')}"
        "element.run_element(__import__('pathlib').Path(sys.argv[1]), 0)\n"
        "assert 'pyarrow' in sys.modules and 'numpy' not in sys.modules\n"
        "import numpy"  # which the process may still do
    )
    done = run(folder.root, "0", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_trial_that_cannot_be_run_spoils_no_other(bench: Bench) -> None:
    broken, sound = bench.trial("predict()", "t0"), bench.trial("predict()", "t1")
    bench.run.trial("t0").spec.write_text("{")
    folder = submitted(bench, [broken, sound])
    done = run(folder.root, "0")
    assert done.returncode == 1
    assert "ValidationError" in done.stderr
    assert read_result(bench.run.trial("t1")) is not None


def test_says_what_is_wrong(bench: Bench) -> None:
    assert f"batch in {bench.root / 'nowhere'}" in run(bench.root / "nowhere", "0").stderr
    code = "import os; del os.environ['SLURM_ARRAY_TASK_ID']; " + ELEMENT
    assert "by Slurm" in run(bench.root, "0", code).stderr
    assert element.__name__ == element.MODULE
