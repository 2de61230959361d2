"""Ablations of a tree are facts of their own, unless they changed nothing."""

from __future__ import annotations

from pathlib import Path

from bench_campaign import CampaignBench, ScriptedProposer
from tree_campaign import TreeAuthor, piloted, tree_bench

from hpcscientist.authoring.planner import PlanResult
from hpcscientist.campaign.stages import Opened
from hpcscientist.history import journal
from hpcscientist.history.state import fold
from hpcscientist.papers.facts.collect import collect
from hpcscientist.records.experiment import ExperimentPlan


class Planner:
    async def plan(self, idea: object, concepts: object) -> PlanResult:
        plan = ExperimentPlan(
            data="d", model="m", training="t", testing="t", comparison="c",
            parts=("a norm", "a gate"), ablations=("a norm", "a gate"),
            files=("experiment.py",), seconds=1.0, memory_mb=1.0,
        )  # fmt: skip
        return PlanResult(plan=plan, problems=())


async def drive(bench: CampaignBench) -> None:
    await bench.drive(
        piloted({1: 0.4}),
        ScriptedProposer("a summary"),
        TreeAuthor(bench),
        stages=Opened({"plan": Planner()}),
    )


async def test_ablations_are_facts_of_their_own(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=1)
    await drive(bench)
    sheet = collect(bench.paths).sheet
    fact = sheet.by_id["idea-0001.ablation-2.validation.accuracy.mean"]
    assert (fact.scope.run, fact.scope.attempt) == ("ablation", 2)
    assert sheet.idea_by_id["idea-0001"].parts == {2: "Without a norm", 3: "Without a gate"}
    assert all(row.trial.startswith("idea-0001-a2-") for row in fact.source.trials)


async def test_one_that_changed_nothing_is_no_fact(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=1)
    bench.predictions = lambda spec: f"{spec.idea_id} {spec.seed}"  # whatever the code is
    await drive(bench)
    assert ("idea-0001", 2) in fold(journal.read(bench.paths.journal)).full, "it was run"
    sheet = collect(bench.paths).sheet
    assert not [f.id for f in sheet.facts if ".ablation-2.validation" in f.id]
