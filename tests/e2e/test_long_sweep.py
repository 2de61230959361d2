"""A thousand ideas by `--model search`, the driver killed twice on the way: it ends, and small."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from benchmarks.sweep.driver import CAMPAIGN
from campaigns import BENCHMARKS, hpcsci

from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.history.status import read_holder
from hpcscientist.records.events import IdeaEnded

pytestmark = [pytest.mark.e2e, pytest.mark.full]

IDEAS = 1000
LIMIT_S = 4 * 3600
COMMAND = ["sweep", "--allow-unsandboxed", "--json"]


def kill_at(paths: RunPaths, ideas: int, bench: subprocess.Popen[str]) -> None:
    """Kill the driver, and nobody else, once so many ideas have ended."""
    ended = b'"type":"idea_ended"'
    while bench.poll() is None:
        if paths.journal.exists() and paths.journal.read_bytes().count(ended) >= ideas:
            holder = read_holder(paths.lock)
            assert holder is not None
            os.kill(holder["pid"], signal.SIGKILL)
            return
        time.sleep(1)
    raise AssertionError(f"it ended before {ideas} ideas had")


@pytest.mark.timeout(LIMIT_S)
def test_a_thousand_ideas_with_two_kills(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / CAMPAIGN)
    for ideas in (205, 605):
        with subprocess.Popen([*BENCHMARKS, *COMMAND], cwd=tmp_path, text=True) as bench:
            kill_at(paths, ideas, bench)
            assert bench.wait(600) == 1
    with subprocess.Popen(
        [*BENCHMARKS, *COMMAND], cwd=tmp_path, text=True, stdout=subprocess.PIPE
    ) as bench:
        shown, _ = bench.communicate()
        assert bench.returncode == 0
    events = journal.read(paths.journal)
    assert len({event.key for event in events}) == len(events)
    assert sum(isinstance(event, IdeaEnded) for event in events) == IDEAS
    rows = json.loads(hpcsci("results", CAMPAIGN, "--format", "json", cwd=tmp_path).stdout)
    assert len(rows) == 1 + IDEAS
    found = {row["name"]: row["value"] for row in json.loads(shown)}
    assert max(value for name, value in found.items() if "memory" in name) < 200
    fsyncs = [value for name, value in found.items() if "fsyncs" in name]
    assert max(fsyncs) < 1.25 * min(fsyncs)
