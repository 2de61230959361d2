"""A run directory that nodes have another folder in place of."""

from __future__ import annotations

import pytest
from faults_kit import Faults, until
from faults_trials import Prepare

pytestmark = [pytest.mark.slurm, pytest.mark.root]


def test_nodes_do_not_see_the_run_directory(prepare: Prepare, faults: Faults) -> None:
    trials = prepare()
    trials.bench.run.root.mkdir(exist_ok=True)
    faults.give_private_disks(trials.bench.run.root, 16)
    for name in ("a", "b", "c", "d"):
        trials.add(name, cpus=2)  # a node each
    trials.start()
    assert trials.end_code() == 1, trials.story()
    last = trials.said.read_text().splitlines()[-1]
    assert str(trials.bench.run.root) in last
    assert "--run-dir" in last
    assert "Traceback" not in trials.said.read_text()
    until("nothing is queued", lambda: not trials.cluster.queue(trials.campaign))
    for name in ("a", "b"):
        assert trials.failures(name) == ["lost"]
