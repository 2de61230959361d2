"""A campaign whose ideas climb the recipe's steps, as a user runs it; killed, and resumed."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
from campaigns import TinyCampaign, hpcsci

from hpcscientist.history import journal
from hpcscientist.records.events import BudgetDecided

pytestmark = [pytest.mark.e2e, pytest.mark.full]

SECONDS = {"pilot": 120.0, "half": 121.0, "full": 122.0}


def prepare(folder: Path) -> TinyCampaign:
    folder.mkdir(exist_ok=True)
    campaign = TinyCampaign.prepare(folder)
    recipe = folder / "tiny" / "recipe.toml"
    steps = f'[[budgets.steps]]\nname = "half"\nseconds = {SECONDS["half"]}\n'
    before, after = recipe.read_text().split("[budgets.full]\nseconds = 120.0")
    recipe.write_text(f"{before}{steps}[budgets.full]\nseconds = {SECONDS['full']}{after}")
    (folder / "hpcsci.toml").write_text(
        '[loop]\nallocation = "halving"\nhalving = 2.0\nconfirm = false\ndrift_every = 0\n'
        "ideas_in_flight = 1\n"
    )
    return campaign


def arguments() -> list[str]:
    options = ["--model", "search", "--allow-unsandboxed", "--ideas", "4", "--run-dir", "run"]
    return ["launch", "--recipe", "./tiny", *options]


def climbed(campaign: TinyCampaign) -> list[BudgetDecided]:
    return [e for e in journal.read(campaign.paths.journal) if isinstance(e, BudgetDecided)]


def test_only_the_best_climb_and_a_killed_driver_decides_the_same(tmp_path: Path) -> None:
    whole = prepare(tmp_path / "whole")
    done = whole.drive("never", *arguments())
    assert done.returncode == 0, done.stderr
    assert "pilot 120 s, half 121 s, full 122 s x" in done.stderr

    came = climbed(whole)
    assert [e.idea_id for e in came] == [f"idea-000{n}" for n in range(1, 5)]
    for number, event in enumerate(came, 1):
        better = sum(other.value >= event.value for other in came[: number - 1])
        assert event.goes_on is (number < 2 or better < number // 2)
    on = {e.idea_id for e in came if e.goes_on}
    assert on != {e.idea_id for e in came}
    searched = {name.split("-a")[0] for name in whole.executions() if "-search-" in name}
    assert searched == on

    rows = {row["idea_id"]: row for row in whole.findings()}
    for event in came:
        row = rows[event.idea_id]
        assert (row["n"] is not None) is event.goes_on
        if not event.goes_on:
            assert (row["mean"], row["finding"], row["p_adjusted"]) == (None, None, None)
            assert row["reason"] == event.reason
    for trial in whole.scored_trials():
        spec = json.loads(whole.paths.trial(trial).spec.read_text())
        assert spec["limits"]["deadline_s"] == SECONDS[spec["budget"]]
        assert (spec["budget"] == "half") is ("-step-" in trial)

    killed = prepare(tmp_path / "killed")
    died = killed.drive("budget_decided:2:after", *arguments())
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert climbed(killed) == came[:2]
    killed.resume_to(whole.findings())
    assert climbed(killed) == came


def test_a_reference_that_knows_no_such_step_is_found_by_the_check(tmp_path: Path) -> None:
    prepare(tmp_path)
    entry = tmp_path / "tiny" / "reference" / "experiment.py"
    choices = 'args = parser.parse_args()\nassert args.budget in ("pilot", "full"), args.budget\n'
    good = hpcsci("recipe", "check", "./tiny", "--run", cwd=tmp_path)
    assert good.returncode == 0, good.stderr
    assert re.search(r"\bhalf\b.*: accuracy \d", good.stderr)
    entry.write_text(entry.read_text().replace("args = parser.parse_args()\n", choices))
    bad = hpcsci("recipe", "check", "./tiny", "--run", cwd=tmp_path)
    assert bad.returncode == 2
    assert "half (error): " in bad.stderr
