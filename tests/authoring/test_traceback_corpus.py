"""Every broken experiment of the corpus: exactly the labelled frames, in order."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from benchmarks.tracebacks import Case, Failed, cases, fail, fail_all

from hpcscientist.authoring.tracebacks.log import frames, last_error

CASES = cases()


@pytest.fixture(scope="session")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Failed]:
    folder = tmp_path_factory.mktemp("broken")
    if "PYTEST_XDIST_WORKER" in os.environ:  # which runs only the cases that fall to it
        return lambda case: fail(case, folder)
    done = fail_all(CASES, folder)
    return lambda case: done[case.name]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_frames_are_exactly_the_labelled_ones(case: Case, failed: Callable[[Case], Failed]) -> None:
    log = failed(case).log
    found = frames(log, case.files)
    assert [(f.file, f.line, f.function) for f in found] == list(case.frames), log
    for frame in found:
        lines = case.files[frame.file].split("\n")
        assert frame.code == lines[frame.line - 1].strip()
    assert last_error(log).startswith(case.headline), log
