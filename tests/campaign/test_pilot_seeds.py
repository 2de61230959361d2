"""Which seed a pilot runs with: a value that versions are picked by is not among those tested."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored

from hpcscientist.records.trial import Stage


@pytest.mark.parametrize("search", ["line", "tree"])
async def test_a_trees_pilots_share_no_seed_with_what_is_tested(
    search: str, tmp_path: Path
) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    authoring = bench.config.settings.authoring.model_dump()
    bench.configure(authoring=authoring | {"search": search, "drafts": 1, "nodes": 1})
    await bench.drive(lambda spec: scored(0.5), ScriptedProposer("warm restarts"))
    seeds: dict[Stage, set[int]] = {stage: set() for stage in Stage}
    for trial in bench.state.trials.values():
        seeds[trial.stage].add(trial.seed)
    assert len(seeds[Stage.PILOT]) == 1  # the reference's too: pilots are held against it
    assert len(seeds[Stage.SEEDS]) == bench.seeds
    assert (seeds[Stage.PILOT] <= seeds[Stage.SEEDS]) is (search == "line")
