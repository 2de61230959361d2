from __future__ import annotations

import subprocess
import sys

from trialkit import Bench

from hpcscientist.records.outcome import Scored
from hpcscientist.results.store import read_result

# No model code, and none of the libraries that take long.
HEAVY = (
    *("numpy", "pyarrow.compute", "pyarrow.dataset", "scipy", "sklearn", "optuna", "rich"),
    *("httpx", "click", "hpcscientist.models", "hpcscientist.campaign", "hpcscientist.ideation"),
)


def test_a_worker_imports_nothing_that_it_does_not_need(bench: Bench) -> None:
    """What submitit itself imports first is left out by the backend's own command; see there."""
    spec = bench.trial("predict()")
    paths = bench.run.trial(spec.trial_id)
    code = (
        "import sys; from hpcscientist.system.lean import without\n"
        "with without('numpy'):\n"
        "    from hpcscientist.execution.backends.local import Launch\n"
        "from hpcscientist.worker.local import run_trial\n"
        "Launch(run_trial, None)(sys.argv[1])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
        "import numpy"  # which the process may still do
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(paths.root)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    report = read_result(paths)
    assert report is not None
    assert isinstance(report.outcome, Scored)
