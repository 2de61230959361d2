"""All hostile candidates as elements of arrays, as an ordinary user, good ones beside them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from faults_kit import until
from faults_trials import Trials
from hostile_candidates import HOSTILE, write_trials
from hostile_kit import (
    GOOD,
    HONEST,
    HONEST_ACCURACY,
    Hostile,
    HostileBench,
    Surroundings,
    unscathed,
    verify,
    write_trial,
)
from hostile_listener import listening, own_addresses
from slurm_kit import Cluster

from hpcscientist.history import journal
from hpcscientist.records.events import TrialEnded
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, Outcome, Scored, TrialReport
from hpcscientist.results.store import read_result

pytestmark = [pytest.mark.slurm, pytest.mark.apptainer]

GOOD_ONES = ("good-a", "good-b")
BOMBS = ("forks-without-end", "starts-threads-without-end")
# What no trial may change.
GUARDED = ("private", "data", "recipe", "code")


def guarded(bench: HostileBench) -> dict[str, bytes]:
    return {
        name: content
        for name, content in bench.files().items()
        if name.partition(os.sep)[0] in GUARDED
    }


def test_all_are_contained_while_good_ones_are_scored(cluster: Cluster) -> None:
    image = os.environ.get("HPCSCI_TEST_IMAGE")
    if not image or shutil.which("apptainer") is None:
        pytest.skip("NOT TESTED: hostile candidates on Slurm, for lack of apptainer or an image")
    folder = cluster.make_folder("hostile")
    bench = HostileBench(folder, str(cluster.python)).prepare()
    trials = Trials(cluster, bench, folder.name.replace("-", ""))
    trials.write_site(slurm={"memory_margin_mb": 256, "pack_s": 0.0})
    shutil.copy(Path(__file__).with_name("faults_driver.py"), folder / "driver.py")
    other = bench.run.trial(bench.trial("pass", "another").trial_id)
    (other.out / "predictions.csv").write_text(HONEST)
    with listening() as (port, calls):
        around = Surroundings(
            other_trial=str(other.root),
            loopback=("127.0.0.1", port),
            node=(own_addresses()[0], port),
            controller=(own_addresses()[-1], port),
        )
        beside = [
            write_trial(
                bench, Hostile(n, GOOD, "scored", limits={"deadline_s": 900.0}), image, around
            )
            for n in GOOD_ONES
        ]
        hostile = write_trials(bench, image, around)
        for spec in [*beside, *(spec for _, spec in hostile)]:
            source = spec.provenance.model_copy(update={"campaign_id": trials.campaign})
            trials.specs.append(spec.model_copy(update={"provenance": source}))
        trials.start()
        before = guarded(bench)
        names = {spec.trial_id for _, spec in hostile}
        until("every hostile candidate has ended", lambda: names <= ended(bench), limit_s=500)
        assert not set(GOOD_ONES) & ended(bench)
        for spec in beside:
            (bench.run.trial(spec.trial_id).out / "go on").touch()
        trials.finish()
        assert calls == []
    for spec in beside:
        assert reported(bench, spec.trial_id).outcome == Scored(
            metrics={"accuracy": HONEST_ACCURACY}
        )
    wrong = {}
    for candidate, spec in hostile:
        outcome = reported(bench, spec.trial_id).outcome
        if (candidate.name in BOMBS or candidate.outcome == "out_of_memory") and _by_slurm(outcome):
            continue  # Slurm saw its memory before the worker saw it, or counted its processes
        try:
            verify(candidate, reported(bench, spec.trial_id), bench.run.trial(spec.trial_id))
        except AssertionError as error:
            wrong[candidate.name] = str(error)
    assert wrong == {}
    assert len(hostile) == len(HOSTILE) >= 15
    unscathed(other.root)
    assert guarded(bench) == before
    assert cluster.queue(trials.campaign) == []


def _by_slurm(outcome: Outcome) -> bool:
    memory = isinstance(outcome, IdeaFailed) and outcome.failure is IdeaFailure.OUT_OF_MEMORY
    # Slurm ended the task; or the kernel, by the limit that Slurm set, the candidate alone.
    said = ("Slurm ended it for its memory", "the memory that Slurm gave the job")
    return memory and any(words in outcome.detail for words in said)


def ended(bench: HostileBench) -> set[str]:
    events = journal.read(bench.run.journal)
    return {event.report.trial_id for event in events if isinstance(event, TrialEnded)}


def reported(bench: HostileBench, trial_id: str) -> TrialReport:
    report = read_result(bench.run.trial(trial_id))
    assert report is not None, trial_id
    return report
