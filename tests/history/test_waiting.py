"""Why array tasks wait is in a file of the run directory, for whoever looks at the campaign."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import status


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path)
    paths.waiting.parent.mkdir()
    return paths


def test_what_is_written_is_read(paths: RunPaths) -> None:
    begun = time.time()
    status.write_waiting(paths, {"Priority": 3, "QOSMaxJobsPerUserLimit": 12, "None": 1})
    found = status.read_waiting(paths)
    assert found is not None
    assert found.reasons == {"Priority": 3, "QOSMaxJobsPerUserLimit": 12, "None": 1}
    assert begun <= found.seen <= time.time()
    said = status.waiting_line(found)
    order = [said.index(text) for text in ("12 QOSMaxJobsPerUserLimit", "3 Priority", "1 without")]
    assert order == sorted(order)


def test_nothing_is_left_where_nothing_waits(paths: RunPaths) -> None:
    status.write_waiting(paths, {"Priority": 3})
    status.write_waiting(paths, {})
    assert not paths.waiting.exists()
    assert status.read_waiting(paths) is None
    assert status.waiting_line(None) == ""


@pytest.mark.parametrize("text", ["", "{", "[]", '{"seen": 1}', '{"seen": 1, "reasons": [1]}'])
def test_a_damaged_file_says_nothing(text: str, paths: RunPaths) -> None:
    paths.waiting.write_text(text)
    assert status.read_waiting(paths) is None


def test_a_disk_that_takes_nothing_stops_nobody(tmp_path: Path) -> None:
    status.write_waiting(RunPaths(tmp_path / "gone"), {"Priority": 3})
