"""Whole campaigns on Slurm whose driver is ended, as its user sees them."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from campaigns import NOT_COMPARED, TinyCampaign
from faults_commands import AFTER_SBATCH, BEFORE_SBATCH, KILLED, broken_sbatch
from faults_kit import LIMIT_S, until
from faults_trials import IMPATIENT
from slurm_kit import Cluster, QueuedJob

from hpcscientist.history import frozen, journal

pytestmark = [pytest.mark.slurm, pytest.mark.e2e]

SITE = {"slurm": {"memory_margin_mb": 128}, "watch": IMPATIENT}


class Campaign:
    """A tiny campaign of two ideas, in a folder that all nodes see."""

    def __init__(self, cluster: Cluster, folder: Path, **slurm: Any) -> None:
        self.cluster, self.tiny = cluster, TinyCampaign.prepare(folder)
        self.write_site(**slurm)
        cluster.own(folder)
        self.launch = self.tiny.launch_arguments(2)
        self.on_slurm = ["--backend", "slurm", "--site", "site.toml"]

    def write_site(self, **slurm: Any) -> None:
        """Write the site profile: what is usual here, and what is given."""
        lines: list[str] = []
        for name, values in (SITE | {"slurm": SITE["slurm"] | slurm}).items():
            lines += [f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in values.items())]
        (self.tiny.folder / "site.toml").write_text("\n".join(lines) + "\n")

    def hpcsci(self, *arguments: str, env: dict[str, str] | None = None) -> int:
        done = self.cluster.hpcsci(*arguments, cwd=self.tiny.folder, env=env, timeout=LIMIT_S)
        self.out, self.err = done.stdout, done.stderr
        assert "Traceback" not in self.err
        return done.returncode

    def findings(self) -> list[dict[str, Any]]:
        assert self.hpcsci("results", "run", "--format", "json") == 0, self.err
        rows = json.loads(self.out)
        return [{k: v for k, v in row.items() if k not in NOT_COMPARED} for row in rows]

    def queue(self) -> list[QueuedJob]:
        paths = self.tiny.paths
        return self.cluster.queue(frozen.read(paths).campaign_id) if paths.campaign.exists() else []

    def check(self, expected: list[dict[str, Any]]) -> None:
        """The findings are those, each trial was run once, nothing is left."""
        assert self.findings() == expected
        executions = self.tiny.executions()
        assert set(executions.values()) == {1}, executions
        events = journal.read(self.tiny.paths.journal)
        assert len({event.key for event in events}) == len(events)
        until("the queue is empty", lambda: not self.queue())
        submission = self.tiny.paths.submission
        assert not submission.exists() or not any(submission.iterdir())


@pytest.fixture
def campaign(cluster: Cluster, shared: Path) -> Iterator[Campaign]:
    made = Campaign(cluster, shared)
    yield made
    if made.queue():
        made.hpcsci("cancel", "run")


@pytest.fixture(scope="module")
def expected(cluster: Cluster) -> list[dict[str, Any]]:
    """The findings of the same campaign on one machine, undisturbed."""
    reference = Campaign(cluster, cluster.make_folder())
    assert reference.hpcsci(*reference.launch, "--backend", "local") == 0, reference.err
    return reference.findings()


def test_killed_around_sbatch_again_and_again(
    campaign: Campaign, expected: list[dict[str, Any]]
) -> None:
    folder, arguments = campaign.tiny.folder, [*campaign.launch, *campaign.on_slurm]
    for act in (AFTER_SBATCH, BEFORE_SBATCH, AFTER_SBATCH):
        assert campaign.hpcsci(*arguments, env=broken_sbatch(folder, act)) in KILLED, campaign.err
        arguments = ["resume", "run"]
    assert campaign.hpcsci(*arguments) == 0, campaign.err
    campaign.check(expected)


def test_cancelled_after_its_driver_was_killed_behind_sbatch(
    cluster: Cluster, shared: Path, expected: list[dict[str, Any]]
) -> None:
    campaign = Campaign(cluster, shared, extra=["--hold"])  # no trial ends before it is cancelled
    env = broken_sbatch(shared, AFTER_SBATCH)
    assert campaign.hpcsci(*campaign.launch, *campaign.on_slurm, env=env) in KILLED, campaign.err
    assert campaign.queue()
    assert campaign.hpcsci("cancel", "run") == 0, campaign.err
    assert campaign.queue() == []
    campaign.write_site()
    assert campaign.hpcsci("resume", "run", "--site", "site.toml") == 0, campaign.err
    campaign.check(expected)


def test_a_log_out_leaves_trials_in_the_queue(
    cluster: Cluster, shared: Path, expected: list[dict[str, Any]]
) -> None:
    campaign = Campaign(cluster, shared, extra=["--hold"])
    driver = cluster.start(
        *(*cluster.hpcsci_command, *campaign.launch, *campaign.on_slurm), cwd=shared
    )
    until("it waits", campaign.queue)
    for process in psutil.Process(driver.pid).children():
        process.send_signal(signal.SIGHUP)
    _, said = driver.communicate(timeout=LIMIT_S)
    assert driver.returncode == 130, said
    jobs = {row.job_id.partition("_")[0] for row in campaign.queue()}
    assert jobs
    assert cluster.run("scontrol", "release", *jobs, cwd=shared).returncode == 0
    campaign.write_site()
    assert campaign.hpcsci("resume", "run", "--site", "site.toml") == 0, campaign.err
    campaign.check(expected)
