"""What the journal says of a driver that stopped."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench_campaign import CampaignBench

from hpcscientist.campaign import drive
from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.state import CampaignState
from hpcscientist.campaign.status import status


def test_a_fault_of_our_own_is_a_failed_campaign_and_no_stopped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def conduct(*_: Any) -> None:
        raise OverflowError("too\nlarge")

    monkeypatch.setattr(drive, "conduct", conduct)
    bench, state = CampaignBench(tmp_path, ideas=1), CampaignState()
    wired: Any = SimpleNamespace(lets_go=True)
    journal = Journal(bench.paths.journal, state.apply)
    with pytest.raises(OverflowError):
        drive._run(bench.paths, wired, journal, 1, None)
    journal.close()
    assert state.stopped is not None
    assert state.stopped.lets_go
    assert state.stopped.reason == "unexpected OverflowError: too large"
    assert status(bench.paths)["state"] == "failed"
