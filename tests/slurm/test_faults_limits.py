"""Arrays that are too large, submit limits, and names that Slurm does not know."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaigns import TinyCampaign
from faults_kit import Faults, until
from faults_trials import WHEN_TOLD, Prepare
from slurm_kit import Cluster

pytestmark = pytest.mark.slurm

NAMES = [f"t{number:02}" for number in range(12)]
SMALL = {"memory_mb": 128}


@pytest.mark.parametrize("whose", ["the site profile's", "the cluster's"])
def test_more_trials_than_an_array_may_have(prepare: Prepare, faults: Faults, whose: str) -> None:
    site = {"max_array": 5} if whose == "the site profile's" else {}
    if not site:
        faults.configure(MaxArraySize="6")  # indices below it, so five tasks: 1 to 5 or 0 to 4
    trials = prepare(slurm=site)
    for name in NAMES:
        trials.add(name)
    trials.finish()
    trials.check_scored()
    assert len(trials.jobs()) == 3
    assert all(report.run == 1 for name in NAMES for report in trials.reports(name))


@pytest.mark.parametrize("known", [True, False], ids=["known", "to be found out"])
def test_submit_limit(prepare: Prepare, known: bool) -> None:
    # Eight tasks of this QOS may be in the queue. Where that is to be found out, the site
    # profile says something wrong.
    trials = prepare(slurm={"qos": "limited"} | ({} if known else {"max_submit": 100}))
    for name in NAMES:
        trials.add(name, WHEN_TOLD, **SMALL)
    trials.start()
    until("some began", lambda: trials.told("began"))
    assert len(trials.cluster.queue(trials.campaign)) <= 8
    trials.touch()
    trials.finish()
    trials.check_scored()
    assert len(trials.jobs()) >= 2
    assert ("submit limit" in trials.notes()) == (not known)


@pytest.mark.parametrize("option", ["--partition", "--account", "--qos"])
def test_a_name_that_slurm_does_not_know(cluster: Cluster, shared: Path, option: str) -> None:
    campaign = TinyCampaign.prepare(shared)
    cluster.own(shared)
    arguments = [*campaign.launch_arguments(1), "--backend", "slurm", option, "nowhere"]
    done = cluster.hpcsci(*arguments, cwd=shared)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()[-1:]
    assert option in line
    assert "Traceback" not in done.stderr
    assert not campaign.paths.root.exists()
    assert cluster.queue("tiny") == []
