"""Slurm ends a task for its memory or its time, and no worker is left to say so."""

from __future__ import annotations

import os
import time

import pytest
from faults_kit import until
from faults_trials import WHEN_TOLD, Prepare

from hpcscientist.records.outcome import IdeaFailed, IdeaFailure, Scored

pytestmark = pytest.mark.slurm

GROW = """
held = []
while True:
    held.append(b"x" * (64 << 20))
"""
# The worker cannot end what has stopped it.
STOP_WORKER = """
import json
os.kill(json.loads((TRIAL / "worker.json").read_text())["pid"], signal.SIGSTOP)
linger()
"""


def test_out_of_memory(prepare: Prepare) -> None:
    """Where Slurm limits by control groups the worker outlives it; elsewhere nobody does."""
    # The worker would let it have 3500 MiB; Slurm does not.
    trials = prepare(slurm={"memory": "none", "extra": ["--mem=400M"]})
    trials.add("grows", GROW, memory_mb=3500)
    trials.add("good", memory_mb=3500)
    trials.finish()
    trials.check()
    (report,) = trials.reports("grows")
    assert isinstance(report.outcome, IdeaFailed)
    assert report.outcome.failure is IdeaFailure.OUT_OF_MEMORY
    assert "Slurm" in report.outcome.detail
    assert report.usage.slurm_job is not None
    # Of a task that the worker told of, nobody asks Slurm.
    assert report.usage.slurm_state in (None, "FAILED", "OUT_OF_MEMORY", "CANCELLED")
    assert report.usage.node == trials.nodes("grows")[0]
    assert len(trials.nodes("grows")) == 1
    assert isinstance(trials.reports("good")[0].outcome, Scored)
    if report.usage.slurm_state is not None:
        assert "memory" in trials.bench.run.trial("grows").log.read_text()


def test_walltime(prepare: Prepare) -> None:
    """It ends trials within their deadlines, and one that is past it."""
    trials, later = prepare(slurm={"extra": ["--time=1"]}), prepare()
    trials.add("early", WHEN_TOLD)
    trials.add("overdue", STOP_WORKER, deadline_s=5.0)
    later.add("early", WHEN_TOLD)
    for each in (trials, later):
        each.start()
        each.await_began(*(spec.trial_id for spec in each.specs))
    tasks = [(each, spec.trial_id) for each in (trials, later) for spec in each.specs]
    for each, name in tasks:
        # Slurm looks at time limits every half minute, and they are whole minutes.
        each.user("scontrol", "update", f"JobId={each.array_task(name)}", "EndTime=now+8")
    later.kill_driver()
    trials.await_began("early", times=2)
    trials.touch()
    trials.finish()
    trials.check()
    assert trials.failures("early") == ["walltime"]
    assert isinstance(trials.reports("early")[-1].outcome, Scored)
    assert trials.reports("early")[0].usage.slurm_state == "TIMEOUT"
    (report,) = trials.reports("overdue")
    assert isinstance(report.outcome, IdeaFailed)
    assert report.outcome.failure is IdeaFailure.TIMEOUT
    assert report.usage.slurm_state == "TIMEOUT"

    # A driver that comes back when the deadline has long passed knows how long it ran.
    until("it has ended, too", lambda: not later.cluster.queue(later.campaign))
    yesterday = time.time() - 86400
    (log,) = later.bench.run.submission.glob("*/*_log.out")
    ran_s = log.stat().st_mtime - later.bench.run.trial("early").worker.stat().st_mtime
    os.utime(later.bench.run.trial("early").worker, (yesterday, yesterday))
    os.utime(log, (yesterday + ran_s, yesterday + ran_s))
    later.touch()
    later.finish()
    later.check_scored()
    assert later.failures("early") == ["walltime"]
