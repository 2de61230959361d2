"""The control arm goes through the same loop, and is the same for the same seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from campaigns import TinyCampaign, hpcsci

pytestmark = pytest.mark.e2e


def rows_of(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        hpcsci("results", "run", "--format", "json", cwd=folder).stdout
    )
    return found


@pytest.mark.full
def test_search_beats_the_digits_baseline(tmp_path: Path) -> None:
    done = hpcsci("launch", "--model", "search", "--ideas", "8", "--run-dir", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path)
    assert len(rows) == 9
    best = max((row for row in rows[1:] if row["mean"] is not None), key=lambda row: row["mean"])
    assert best["finding"] == "improvement"
    assert 0 < best["ci_low"] <= best["delta"] <= best["ci_high"]


@pytest.mark.full
def test_search_is_reproducible_whatever_the_slots(tmp_path: Path) -> None:
    tables = []
    for slots in (1, 3):
        folder = tmp_path / str(slots)
        TinyCampaign.prepare(folder)
        (folder / "hpcsci.toml").write_text(
            f"[local]\nslots = {slots}\n[loop]\nideas_in_flight = 3\n"
        )
        options = ["--model", "search", "--ideas", "6", "--run-dir", "run", "--rounds", "2"]
        done = hpcsci("launch", "--recipe", "./tiny", *options, cwd=folder)
        assert done.returncode == 0, done.stderr
        tables.append([(row["title"], row["mean"], row["round"]) for row in rows_of(folder)])
    assert tables[0] == tables[1]
    assert {round_number for _, _, round_number in tables[0][1:]} == {1, 2}


def test_it_shares_a_campaign_with_a_model(tmp_path: Path) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    done = hpcsci(*campaign.launch_arguments(5), "--control", "0.4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = hpcsci("results", "run", cwd=tmp_path)
    whole, equal = (line for line in shown.stderr.splitlines() if line.startswith("arms: "))
    assert whole.startswith("arms: model: ")
    assert " of 3 ideas improved" in whole
    assert " of 2 ideas improved" in whole
    assert " CPU-hours each: model: " in equal
    files = [campaign.paths.root / f"ideas/idea-000{number}/idea.json" for number in range(1, 6)]
    drawn = [json.loads(file.read_text())["model"] == "search" for file in files]
    assert drawn == [False, False, True, False, True]
