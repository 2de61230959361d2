"""What is left out when a command or a worker starts is there when it is asked for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def told(code: str) -> list[str]:
    """Return what a new process with this code prints, by word."""
    start = "import sys\nfrom hpcscientist.system.lean import *\nstart_quickly()\n"
    env = {k: v for k, v in os.environ.items() if k != "OPENBLAS_THREAD_TIMEOUT"}
    return subprocess.run(
        [sys.executable, "-c", start + code],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.split()


def test_pandas_is_imported_by_what_needs_it_alone() -> None:
    pytest.importorskip("pandas")
    code = """
import pyarrow
spare_pandas()
table = pyarrow.table({"n": pyarrow.array([1, 2])})
print("pandas" in sys.modules, table.to_pandas().n.sum(), "pandas" in sys.modules)
"""
    assert told(code) == ["False", "3", "True"]


def test_nothing_is_imported_to_be_spared() -> None:
    assert told("spare_pandas(); print('pyarrow' in sys.modules)") == ["False"]


def test_a_module_that_is_left_out_can_be_imported_afterwards() -> None:
    code = """
with without("calendar"):
    try:
        import calendar
    except ModuleNotFoundError as error:
        print(error.name)
import calendar
print(calendar.isleap(2028))
"""
    assert told(code) == ["calendar", "True"]


def test_what_ends_a_process_still_runs_at_its_end() -> None:
    assert told("import atexit; atexit.register(print, 'ended'); print('run')") == ["run", "ended"]


def test_threads_that_nobody_set_sleep_soon() -> None:
    code = "import os; print(os.environ['OPENBLAS_THREAD_TIMEOUT'])"
    assert told(code) == ["4"]
