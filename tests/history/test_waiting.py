"""Why array tasks wait is in a file of the run directory, for whoever looks at the campaign."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import waiting


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path)
    paths.waiting.parent.mkdir()
    return paths


def test_what_is_written_is_read(paths: RunPaths) -> None:
    begun = time.time()
    waiting.write(paths, {"Priority": 3, "QOSMaxJobsPerUserLimit": 12, "None": 1})
    found = waiting.read(paths)
    assert found is not None
    assert found.reasons == {"Priority": 3, "QOSMaxJobsPerUserLimit": 12, "None": 1}
    assert begun <= found.seen <= time.time()
    said = waiting.said(found)
    order = [said.index(text) for text in ("12 QOSMaxJobsPerUserLimit", "3 Priority", "1 without")]
    assert order == sorted(order)


def test_nothing_is_left_where_nothing_waits(paths: RunPaths) -> None:
    waiting.write(paths, {"Priority": 3})
    waiting.write(paths, {})
    assert not paths.waiting.exists()
    assert waiting.read(paths) is None
    assert waiting.said(None) == ""


@pytest.mark.parametrize("text", ["", "{", "[]", '{"seen": 1}', '{"seen": 1, "reasons": [1]}'])
def test_a_damaged_file_says_nothing(text: str, paths: RunPaths) -> None:
    paths.waiting.write_text(text)
    assert waiting.read(paths) is None


def test_a_disk_that_takes_nothing_stops_nobody(tmp_path: Path) -> None:
    waiting.write(RunPaths(tmp_path / "gone"), {"Priority": 3})
