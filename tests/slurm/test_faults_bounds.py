"""Slurm ends a task for its memory or its time, and no worker is left to say so."""

from __future__ import annotations

import json
import os
import re
import time

import pytest
from faults_kit import Faults, signal_worker, until
from faults_trials import WHEN_TOLD, Prepare

from hpcscientist.records.trial import IdeaFailed, IdeaFailure, Scored

pytestmark = pytest.mark.slurm

GROW = """
held = []
while True:
    held.append(b"x" * (64 << 20))
"""


# The worker would let a candidate have 3500 MiB; Slurm does not.
TIGHT = {"memory": "none", "extra": ["--mem=400M"]}
SLURMS_WORDS = re.compile(r"(?i)\boom[- ]kill")


def test_out_of_memory_without_a_trace(prepare: Prepare, faults: Faults) -> None:
    """The kernel ends the worker as well, as it does where a site has it end the whole step."""
    trials = prepare(slurm=TIGHT)
    trials.add("grows", f"await_file(ROOT / 'go')\n{GROW}", memory_mb=3500)
    trials.add("good", memory_mb=3500)
    trials.start()
    trials.await_began("grows")
    (node,) = trials.nodes("grows")
    job = trials.array_task("grows")
    # Slurm 22.05 cannot be told to end the step, so the kernel is told whom to take first.
    worker = json.loads(trials.bench.run.trial("grows").worker.read_text())["pid"]
    faults.on_node(node, "sh", "-c", f"echo 1000 > /proc/{worker}/oom_score_adj")
    trials.touch()
    trials.finish()
    trials.check()
    (report,) = trials.reports("grows")
    assert isinstance(report.outcome, IdeaFailed)
    assert report.outcome.failure is IdeaFailure.OUT_OF_MEMORY
    assert report.outcome.detail == (
        f"Slurm ended it for its memory: more than 3500 MiB (job {job} on {node})"
    )
    assert report.usage.slurm_job == job
    assert report.usage.slurm_state == "OUT_OF_MEMORY"
    assert report.usage.node == node
    assert trials.nodes("grows") == [node]
    said = trials.bench.run.trial("grows").log.read_text()
    assert SLURMS_WORDS.search(said), said
    assert said.endswith(f"{report.outcome.detail}\n")
    assert isinstance(trials.reports("good")[0].outcome, Scored)


def test_out_of_memory_of_the_candidate_alone(prepare: Prepare) -> None:
    """The kernel ends the candidate, by Slurm's limit; its worker lives on and says so."""
    trials = prepare(slurm=TIGHT)
    body = f"print('before', flush=True)\nawait_file(ROOT / 'go')\n{GROW}"
    trials.add("grows", body, memory_mb=3500)
    trials.add("good", memory_mb=3500)
    trials.start()
    trials.await_began("grows")
    job = trials.array_task("grows")
    trials.touch()
    trials.finish()
    trials.check()
    (report,) = trials.reports("grows")
    assert isinstance(report.outcome, IdeaFailed)
    assert report.outcome.failure is IdeaFailure.OUT_OF_MEMORY
    assert report.outcome.detail == (
        "killed by signal 9: it used more than the memory that Slurm gave the job"
    )
    # The worker's own report: nobody had to ask Slurm.
    assert report.usage.slurm_state is None
    assert report.usage.slurm_job == job
    assert [report.usage.node] == trials.nodes("grows")
    assert trials.bench.run.trial("grows").log.read_text() == "before\n"
    assert isinstance(trials.reports("good")[0].outcome, Scored)


def test_walltime(prepare: Prepare) -> None:
    """It ends trials within their deadlines, and one that is past it: its worker stands still."""
    trials, later = prepare(), prepare()
    trials.add("early", WHEN_TOLD)
    trials.add("overdue", "linger()", deadline_s=30.0)
    later.add("early", WHEN_TOLD)
    for each in (trials, later):
        each.start()
        each.await_began(*(spec.trial_id for spec in each.specs))
    signal_worker(trials.bench.run.trial("overdue").worker, trials.nodes("overdue")[0], "STOP")
    tasks = [(each, spec.trial_id) for each in (trials, later) for spec in each.specs]
    for each, name in tasks:
        # Slurm looks at time limits every half minute, and they are whole minutes.
        after = 35 if name == "overdue" else 8
        each.user("scontrol", "update", f"JobId={each.array_task(name)}", f"EndTime=now+{after}")
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
