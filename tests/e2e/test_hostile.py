"""Candidates that reach beyond their trial without a sandbox: prevented, or noticed."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from campaigns import TinyCampaign, hpcsci
from tiny_recipe import edit, idea, propose

from hpcscientist.campaign import journal

pytestmark = pytest.mark.e2e

# Writes the result of another seed of its own idea, as the package itself would write it.
FORGE = """
import json, sys
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.outcome import Scored
from hpcscientist.records.trial import TrialReport, TrialSpec, Usage
from hpcscientist.results import store
trials = Path(args.out).parent.parent
for other in trials.glob("idea-0001-*-search-1"):
    spec = TrialSpec.model_validate_json((other / "spec.json").read_bytes())
    usage, outcome = Usage(started_at=1, ended_at=2), Scored(metrics={"accuracy": 1.0})
    report = TrialReport(trial_id=spec.trial_id, run=spec.run, usage=usage, outcome=outcome)
    if not (other / "worker.json").exists():
        store.write_result(TrialPaths(other), spec, report)
        Path(COUNT_FILE + ".forged").touch()
"""

# Follows every path that the run directory tells it.
FOLLOW = """
import json, re
told = (Path(args.out).parent / "spec.json").read_text()
told += (Path(args.out).parents[2] / "campaign.toml").read_text()
for word in set(re.findall(r'"([^"]*)"', told)):
    if Path(word).is_dir() and (Path(word) / "labels.csv").exists():
        found = (Path(word) / "labels.csv").read_text()
        rows = ["id,label", *found.split()]
        Path(args.out, "predictions.csv").write_text(chr(10).join(rows))
"""

SPOIL = """
import os
for file in Path(args.data).rglob("*.txt"):
    os.chmod(file, 0o644)
    file.write_text(file.read_text() + " 1")
"""


def campaign_of(tmp_path: Path, code: str) -> TinyCampaign:
    """A tiny campaign of one idea whose code ends with `code`."""
    campaign = TinyCampaign.prepare(tmp_path)
    last = 'with open(COUNT_FILE, "a") as file:'
    playbook = [
        propose(1, "Evil", "Reach beyond what one was given."),
        idea(1, "code", {"note": "x", "edits": edit(last, f"{textwrap.dedent(code)}\n{last}")}),
    ]
    lines = "".join(json.dumps(entry) + "\n" for entry in playbook)
    (tmp_path / "tiny" / "playbook.jsonl").write_text(lines)
    (tmp_path / "hpcsci.toml").write_text("[local]\nslots = 1\n")
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


def test_changed_data_are_said_to_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPCSCI_PATHS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HPCSCI_PATHS_PRIVATE", str(tmp_path / "sealed"))
    campaign = campaign_of(tmp_path, SPOIL)
    done = hpcsci(*campaign.launch_arguments(1), cwd=tmp_path)
    assert "no finding can be trusted" in done.stderr
    assert "no finding can be trusted" in hpcsci("results", "run", cwd=tmp_path).stderr
    assert journal.read(campaign.paths.journal)[-1].type == "campaign_ended"
    refused = hpcsci(*campaign.launch_arguments(1)[:-2], "--run-dir", "other", cwd=tmp_path)
    assert refused.returncode == 2
    assert "changed on disk" in refused.stderr
