from __future__ import annotations

import subprocess
import sys

import pytest
from trialkit import Bench

from hpcscientist.records.trial import Scored
from hpcscientist.results.store import read_result
from hpcscientist.worker import MODULE

# No model code, and none of the libraries that take long.
HEAVY = (
    *("numpy", "pyarrow.compute", "pyarrow.dataset", "scipy", "sklearn", "optuna", "rich"),
    *("httpx", "click", "hpcscientist.models", "hpcscientist.campaign", "hpcscientist.ideation"),
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def test_a_worker_imports_nothing_that_it_does_not_need(bench: Bench) -> None:
    spec = bench.trial("predict()")
    paths = bench.run.trial(spec.trial_id)
    code = (
        "import runpy, sys\n"
        f"runpy.run_module({MODULE!r}, run_name='__main__')\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
        "import numpy"  # which the process may still do
    )
    done = run("-c", code, str(paths.root))
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    report = read_result(paths)
    assert report is not None
    assert isinstance(report.outcome, Scored)


def test_a_run_that_is_over_is_left_alone(bench: Bench) -> None:
    spec = bench.trial("predict()")
    paths = bench.run.trial(spec.trial_id)
    assert run("-m", MODULE, str(paths.root), str(spec.run + 1)).returncode == 0
    assert read_result(paths) is None


@pytest.mark.parametrize("given", [(), ("trial", "1", "folder", "more")])
def test_wrong_use_is_said(given: tuple[str, ...]) -> None:
    done = run("-m", MODULE, *given)
    assert done.returncode != 0
    assert done.stderr == (
        "hpcsci worker: python -m hpcscientist.worker TRIAL_FOLDER [RUN [JOB_FOLDER]]\n"
    )
