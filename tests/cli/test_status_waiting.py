"""`hpcsci status` shows why array tasks wait, from the run directory alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_campaign import CampaignBench

from hpcscientist.cli.main import run
from hpcscientist.history import frozen, status
from hpcscientist.history.journal import Journal
from hpcscientist.records.events import CampaignEnded, CampaignStarted


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CampaignBench:
    """A campaign whose driver has gone, on a machine without any of Slurm's commands."""
    bench = CampaignBench(tmp_path, ideas=1)
    monkeypatch.setenv("PATH", str(tmp_path))
    campaign_id = frozen.read(bench.paths).campaign_id
    record(bench, CampaignStarted(campaign_id=campaign_id))
    bench.paths.waiting.parent.mkdir(exist_ok=True)
    status.write_waiting(bench.paths, {"Priority": 2, "QOSMaxJobsPerUserLimit": 7})
    return bench


def record(bench: CampaignBench, event: CampaignStarted | CampaignEnded) -> None:
    journal = Journal(bench.paths.journal, lambda event: None)
    journal.record(event)
    journal.close()


def said(bench: CampaignBench, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["status", str(bench.paths.root)]) == 0
    return capsys.readouterr().out


def test_each_reason_with_how_many_wait_for_it(
    bench: CampaignBench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "7 QOSMaxJobsPerUserLimit, 2 Priority" in said(bench, capsys)


def test_nothing_waits_once_the_campaign_has_ended(
    bench: CampaignBench, capsys: pytest.CaptureFixture[str]
) -> None:
    record(bench, CampaignEnded())
    assert "Priority" not in said(bench, capsys)
