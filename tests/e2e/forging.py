"""Changing what a finished campaign recorded, as somebody would who wants another claim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.campaigns.tampering import Change, change_journal, change_result
from campaigns import TinyCampaign


def change(path: Path, old: str, new: str) -> None:
    """Replace a text that is there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def change_recorded(campaign: TinyCampaign, trial_id: str, value: float) -> None:
    """Have the journal say another value of a scored trial."""
    before = _events(campaign)
    change_journal(campaign.paths, trial_id, _saying(value))
    after = _events(campaign)
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def _events(campaign: TinyCampaign) -> list[Any]:
    """The journal's lines without their signatures, each of which depends on all lines before."""
    return [json.loads(line)["event"] for line in campaign.paths.journal.read_text().splitlines()]


def forge(campaign: TinyCampaign, idea_id: str, value: float) -> None:
    """Have journal and sealed results of an idea's search say another value, and nobody deny it.

    The campaign's key is the one below the root of labels that this process knows.
    """
    for trial_id in sorted(
        folder.name for folder in campaign.paths.trials.glob(f"{idea_id}-a1-search-*")
    ):
        change_result(campaign.paths, trial_id, _saying(value))
        change_recorded(campaign, trial_id, value)
    campaign.paths.idea(idea_id).claim.unlink()


def _saying(value: float) -> Change:
    def change(report: dict[str, Any]) -> None:
        report["outcome"]["metrics"] = {"accuracy": value}

    return change
