"""Nodes die and are cut off; what ran there is run elsewhere, and only one result counts."""

from __future__ import annotations

import pytest
from faults_kit import Faults, until
from faults_trials import WHEN_TOLD, Prepare

from hpcscientist.records.trial import Scored

pytestmark = pytest.mark.slurm

WHOLE_NODE = {"cpus": 2}


def test_a_node_is_killed_and_another_cut_off(prepare: Prepare, faults: Faults) -> None:
    # Slurm starts the tasks of the first campaign again by itself; the second one's are lost.
    requeued = prepare()
    lost = prepare(slurm={"requeue": False})
    for trials in (requeued, lost):
        for name in ("first", "second"):
            trials.add(name, WHEN_TOLD, after="start-second" if name == "second" else "")
        trials.start()
    # Both firsts share a node, for nodes are filled one after another; so do both seconds.
    for trials in (requeued, lost):
        trials.await_began("first")
    for trials in (requeued, lost):
        trials.touch("start-second")
        trials.await_began("second")
    killed, cut = requeued.nodes("first")[0], requeued.nodes("second")[0]
    assert (killed, cut) == (lost.nodes("first")[0], lost.nodes("second")[0])
    assert killed != cut
    faults.kill(killed)
    faults.cut(cut)
    for trials in (requeued, lost):
        trials.await_began("first", "second", times=2)
        trials.touch()  # the candidates beyond the cut go on, too
        trials.finish()
    # It comes back with workers that believe that the trials are theirs.
    until("the cut node has heard it", lambda: len(requeued.told("finished")) >= 3)
    faults.heal()
    for trials in (requeued, lost):
        trials.check(executions=None)
        for name in ("first", "second"):
            report = trials.reports(name)[-1]
            assert isinstance(report.outcome, Scored)
            assert report.usage.node == trials.nodes(name)[1] != trials.nodes(name)[0]
    assert [requeued.failures(name) for name in ("first", "second")] == [[], []]
    assert [lost.failures(name) for name in ("first", "second")] == [["node"], ["node"]]
    for name, node in (("first", killed), ("second", cut)):
        usage = lost.reports(name)[0].usage
        assert (usage.node, usage.slurm_state) == (node, "NODE_FAIL")
        assert usage.slurm_job is not None
