"""Full disks: the campaign's own, where nothing can go on, and one node's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from faults_kit import Faults, until
from faults_trials import WHEN_TOLD, Prepare

pytestmark = [pytest.mark.slurm, pytest.mark.root]


def test_the_run_directory_is_full(prepare: Prepare, faults: Faults) -> None:
    trials = prepare()
    faults.mount_small_disk(trials.bench.run.root, 16)
    for name in ("a", "b"):
        trials.add(name, WHEN_TOLD)
    trials.start()
    trials.await_began("a", "b")
    ballast = fill(trials.bench.run.root)
    trials.touch()
    assert trials.end_code() == 1, trials.story()
    assert "space" in trials.said.read_text().splitlines()[-1]
    assert "Traceback" not in trials.said.read_text()
    until("nothing is queued", lambda: not trials.cluster.queue(trials.campaign))
    assert trials.reports("a") == trials.reports("b") == []
    ballast.unlink()
    trials.finish()
    trials.check_scored()
    assert [trials.failures(name) for name in ("a", "b")] == [[], []]


def fill(disk: Path) -> Path:
    path = disk / "ballast"
    with path.open("wb", buffering=0) as file:
        while free := shutil.disk_usage(disk).free:
            file.write(bytes(min(free, 1 << 20)))
    return path


def test_the_disk_of_one_node_is_full(prepare: Prepare, faults: Faults) -> None:
    faults.give_private_disks(Path("/tmp"), 64)
    trials = prepare()
    trials.add("a", f"{WHEN_TOLD}\npathlib.Path('large').write_bytes(bytes(4 << 20))")
    trials.start()
    trials.await_began("a")
    (node,) = trials.nodes("a")
    faults.on_node(node, "sh", "-c", "dd if=/dev/zero of=/tmp/ballast bs=1M 2>/dev/null || true")
    trials.touch()
    trials.finish()
    trials.check_scored()
    # Slurm may give it the same node once more; then it is avoided.
    *failed, good = trials.reports("a")
    assert trials.failures("a") in (["disk_full"], ["disk_full"] * 2)
    assert {report.usage.node for report in failed} == {node}
    assert good.usage.node != node
