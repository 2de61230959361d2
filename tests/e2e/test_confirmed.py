"""Real campaigns whose improvements are confirmed: true ones hold, cheats do not, kills spend
nothing twice.
"""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from campaigns import TinyCampaign, hpcsci
from cheats import unsound

from hpcscientist.history import journal
from hpcscientist.records.events import SplitSpent, TrialQueued
from hpcscientist.records.trial import Split, Stage, TrialSpec

pytestmark = pytest.mark.e2e

SEEDS = 5


@pytest.fixture(scope="module")
def cheated(tmp_path_factory: pytest.TempPathFactory) -> TinyCampaign:
    """A campaign of a true improvement and three cheats, one after the other."""
    folder = tmp_path_factory.mktemp("cheated")
    campaign = TinyCampaign.prepare(folder, SEEDS)
    lines = "".join(json.dumps(entry) + "\n" for entry in unsound())
    (folder / "tiny" / "playbook.jsonl").write_text(lines)
    (folder / "hpcsci.toml").write_text("[loop]\nideas_in_flight = 1\n")
    done = hpcsci(*campaign.launch_arguments(4), cwd=folder)
    assert done.returncode == 0, done.stderr
    return campaign


def rows(campaign: TinyCampaign) -> dict[str, dict[str, Any]]:
    return {row["title"]: row for row in campaign.findings()}


def test_a_true_improvement_is_confirmed(cheated: TinyCampaign) -> None:
    row = rows(cheated)["Fewer slips"]
    assert (row["finding"], row["confirmed"], row["reason"]) == ("improvement", True, None)
    assert 0.2 < row["test_delta"] < 0.3
    assert row["test_ci_low"] < row["test_delta"] < row["test_ci_high"]


@pytest.mark.parametrize("title", ["File order", "Tuned"])
def test_what_was_fitted_to_the_validation_split_is_not(cheated: TinyCampaign, title: str) -> None:
    row = rows(cheated)[title]
    assert row["finding"] == "improvement", "else there was nothing to be caught"
    assert row["delta"] > 0.05
    assert row["confirmed"] is False
    assert row["test_delta"] < row["delta"] / 2
    assert row["reason"].startswith("not confirmed: ")


def test_predictions_of_another_idea_are_told(cheated: TinyCampaign) -> None:
    assert Path(f"{cheated.count_file}.copied").exists(), "it was not even tried"
    row = rows(cheated)["Borrowed"]
    assert (row["finding"], row["confirmed"]) == (None, None)
    assert row["reason"] == "its predictions are those of idea-0001"


def test_people_are_told_of_all_of_them(cheated: TinyCampaign) -> None:
    told = hpcsci("results", "run", "--verbose", cwd=cheated.folder)
    header = next(line for line in told.stdout.splitlines() if line.startswith("idea "))
    assert "test delta" in header
    assert "shrinkage" in header
    assert "confirmed" in header
    said = next(line for line in told.stderr.splitlines() if line.startswith("confirmed: "))
    assert said.startswith("confirmed: 1 of 3 ")
    assert re.search(r"; idea-0002 not confirmed: [^;]*\bbetter\b", said)
    assert "idea-0003 not confirmed: " in said
    assert "confirmed improvement (1): " in told.stderr
    assert f"idea-0004 scored: {rows(cheated)['Borrowed']['reason']}" in told.stdout


def test_nobody_saw_the_test_inputs_before_the_journal_said_so(cheated: TinyCampaign) -> None:
    lines = journal.read_lines(cheated.paths.journal)
    since = {line.event.idea_id: line.n for line in lines if isinstance(line.event, SplitSpent)}
    told = [line for line in reversed(lines) if isinstance(line.event, TrialQueued)]
    queued = {line.event.trial_id: line.n for line in told}  # for the first time
    assert set(since) == {"baseline", "idea-0001", "idea-0002", "idea-0003"}
    assert since["baseline"] == min(since.values())
    stages: dict[Split, set[Stage]] = {split: set() for split in Split}
    seeds: dict[Split, set[int]] = {split: set() for split in Split}
    for file in cheated.paths.trials.glob("*/spec.json"):
        spec = TrialSpec.model_validate_json(file.read_bytes())
        stages[spec.split].add(spec.stage)
        seeds[spec.split].add(spec.seed)
        assert Path(spec.sources.data).name == spec.split.value
        assert (Path(spec.sources.data) / "test").exists() is (spec.split is Split.TEST)
        if spec.split is Split.TEST:
            assert queued[spec.trial_id] > since[spec.idea_id]  # by lines: clocks are rounded
    assert stages[Split.TEST] == {Stage.CONFIRM}
    assert Stage.CONFIRM not in stages[Split.VALIDATION]
    assert not seeds[Split.TEST] & seeds[Split.VALIDATION]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    campaign = TinyCampaign.prepare(tmp_path_factory.mktemp("uninterrupted"), 4)
    done = campaign.drive("never", *campaign.launch_arguments(1))
    assert done.returncode == 0, done.stderr
    findings = campaign.findings()
    assert [row["confirmed"] for row in findings] == [None, True]
    return findings


# Ten trials come before: a pilot and four seeds of the reference, and of the idea.
@pytest.mark.full
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("split_spent:1:before", marks=pytest.mark.full),
        "split_spent:1:torn",
        "split_spent:1:after",
        pytest.param("split_spent:2:before", marks=pytest.mark.full),
        pytest.param("split_spent:2:after", marks=pytest.mark.full),
        pytest.param("trial_queued:11:after", marks=pytest.mark.full),
        "trial_ended:13:before",
    ],
)
def test_killed_while_it_confirms(
    moment: str, tmp_path: Path, uninterrupted: list[dict[str, Any]]
) -> None:
    campaign = TinyCampaign.prepare(tmp_path, 4)
    died = campaign.drive(moment, *campaign.launch_arguments(1))
    assert died.returncode == -signal.SIGKILL, died.stderr
    campaign.resume_to(uninterrupted)
    events = journal.read(campaign.paths.journal)
    assert sum(isinstance(event, SplitSpent) for event in events) == 2  # the baseline, the idea
