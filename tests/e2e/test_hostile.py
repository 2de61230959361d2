"""Candidates that reach beyond their trial without a sandbox: prevented, or noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from campaigns import TinyCampaign, hpcsci
from cheats import FOLLOW, FORGE, SPOIL, adding
from tiny_recipe import propose

from hpcscientist.history import journal

pytestmark = pytest.mark.e2e

# What they do is to be seen in every trial: nobody ends them for predicting as the reference does.
SETTINGS = "[local]\nslots = 1\n[authoring]\nhopeless = 0.0\n"


def campaign_of(tmp_path: Path, evil: str) -> TinyCampaign:
    """A tiny campaign of one idea whose code ends with `evil`."""
    campaign = TinyCampaign.prepare(tmp_path)
    playbook = [propose(1, "Evil", "Reach beyond what one was given."), adding(1, evil)]
    lines = "".join(json.dumps(entry) + "\n" for entry in playbook)
    (tmp_path / "tiny" / "playbook.jsonl").write_text(lines)
    (tmp_path / "hpcsci.toml").write_text(SETTINGS)
    return campaign


def row_of(campaign: TinyCampaign) -> dict[str, Any]:
    return campaign.findings()[1]


def test_forged_result_of_another_trial_is_no_result(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path, FORGE)
    done = hpcsci(*campaign.launch_arguments(1), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert Path(f"{campaign.count_file}.forged").exists(), "the forgery was not even tried"
    assert campaign.executions()["idea-0001-a1-search-1"] == 1
    assert row_of(campaign)["mean"] < 0.9


def test_run_directory_leads_nobody_to_the_labels(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path, FOLLOW)
    done = hpcsci(*campaign.launch_arguments(1), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert row_of(campaign)["delta"] == 0


def test_changed_data_are_restored_and_who_changed_them_is_said_to_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPCSCI_PATHS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HPCSCI_PATHS_PRIVATE", str(tmp_path / "sealed"))
    campaign = campaign_of(tmp_path, SPOIL)
    done = hpcsci(*campaign.launch_arguments(1), cwd=tmp_path)
    for shown in (done.stderr, hpcsci("results", "run", cwd=tmp_path).stderr):
        told = [line for line in shown.splitlines() if "meanwhile" in line]
        assert all("idea-0001" in line for line in told)
        assert told
    assert row_of(campaign)["status"] == "failed"
    assert journal.read(campaign.paths.journal)[-1].type == "campaign_ended"
    again = [*campaign.launch_arguments(1)[:-2], "--run-dir", "other", "--dry-run"]
    assert hpcsci(*again, cwd=tmp_path).returncode == 0  # the data are those of before
