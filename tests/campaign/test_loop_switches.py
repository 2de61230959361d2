"""Parts of the loop that can be switched off, so that it can be seen what they are good for."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored

from hpcscientist.campaign.proposals.proposal_context import IN_PROGRESS
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import Outcome, TrialSpec

SAME = "a cosine schedule with warm restarts and a longer tail"


def better(spec: TrialSpec) -> Outcome:
    """Every idea is better than the baseline by ten times its spread."""
    gain = 0.0 if spec.idea_id == BASELINE_ID else 0.1
    noise = spec.seed * len(spec.idea_id) % 11 / 1000  # not the baseline's: 8 letters, and 9
    return scored(0.5 + gain + noise)


@pytest.mark.parametrize("tells", [True, False])
async def test_what_was_found_is_told_or_not(tells: bool, tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=3, feedback=tells, confirm=False)
    bench.config = bench.config.model_copy(update={"in_flight": 1})
    proposer = ScriptedProposer("dropout of pixels", "label smoothing", "wider layers")
    await bench.drive(better, proposer)
    last = proposer.tasks[-1]
    assert [entry.idea_id for entry in last.archive] == ["idea-0001", "idea-0002"]
    if tells:
        assert "idea-0001" in last.feedback
        assert {entry.finding for entry in last.archive} == {"improvement"}
        assert last.shown == ("idea-0001", "idea-0002")
    else:
        assert last.feedback == ""
        assert {entry.finding for entry in last.archive} == {IN_PROGRESS}
        assert last.shown == ()


@pytest.mark.parametrize(("independence", "status"), [(True, "rejected"), (False, "scored")])
async def test_look_alikes_are_rejected_or_let_in(
    independence: bool, status: str, tmp_path: Path
) -> None:
    bench = CampaignBench(tmp_path, ideas=2, independence=independence, confirm=False)
    await bench.drive(better, ScriptedProposer(SAME, SAME))
    assert bench.ended()["idea-0002"][0] == status
