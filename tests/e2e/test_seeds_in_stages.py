"""A campaign of the control arm whose seeds go where they change a decision, as a user runs it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from campaigns import TinyCampaign, hpcsci

from hpcscientist.history import journal
from hpcscientist.records.events import SeedsDecided

pytestmark = [pytest.mark.e2e, pytest.mark.full]


@pytest.mark.parametrize(("allocation", "first", "most"), [("sequential", 2, 6), ("halving", 1, 3)])
def test_seeds_go_where_they_pay(allocation: str, first: int, most: int, tmp_path: Path) -> None:
    campaign = TinyCampaign.prepare(tmp_path, seeds=3)
    (tmp_path / "hpcsci.toml").write_text(
        f'[loop]\nallocation = "{allocation}"\nconfirm = false\ndrift_every = 0\n'
        "halving = 2.0\nideas_in_flight = 2\n"
    )
    options = ["--model", "search", "--allow-unsandboxed", "--ideas", "5", "--run-dir", "run"]
    done = hpcsci("launch", "--recipe", "./tiny", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"x {first} to {most} seeds ({allocation})" in done.stderr

    rows = json.loads(hpcsci("results", "run", "--format", "json", cwd=tmp_path).stdout)
    baseline, ideas = rows[0], rows[1:]
    assert baseline["n"] == most
    scored = [row for row in ideas if row["status"] == "scored"]
    assert {row["n"] for row in scored} <= set(range(first, most + 1))
    ran = Counter(
        name.split("-a")[0] for name in campaign.executions().elements() if "-search-" in name
    )
    assert {row["idea_id"]: row["n"] for row in scored} == {
        row["idea_id"]: ran[row["idea_id"]] for row in scored
    }
    # Error rates are drawn up to 0.5, and the reference's is 0.3: some are clearly worse.
    left = [row for row in scored if row["n"] < most]
    assert left
    assert all(row["reason"] for row in left if row["finding"] != "improvement")
    assert set(campaign.executions().values()) == {1}

    decided = [e for e in journal.read(campaign.paths.journal) if isinstance(e, SeedsDecided)]
    assert {e.idea_id for e in decided} == {row["idea_id"] for row in scored}
    assert {e.seeds + e.more for e in decided} >= {row["n"] for row in scored}
    assert hpcsci("resume", "run", cwd=tmp_path).returncode == 0
    assert set(campaign.executions().values()) == {1}
