"""Further runs that a tree asks for itself: the parts that a plan names are left out in turn."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, ScriptedTrials
from tree_campaign import CRASH, Judge, TreeAuthor, lineage, measured, piloted, tree_bench

from hpcscientist.authoring.planner import PlanResult
from hpcscientist.campaign.stages import Opened
from hpcscientist.errors import MachineTrouble
from hpcscientist.judgement.summary import read_rows
from hpcscientist.records.experiment import AnalysisReply, ExperimentPlan

IDEA = "idea-0001"


class Planner:
    """Plans every idea alike."""

    def __init__(self, *ablations: str, problems: tuple[str, ...] = ()) -> None:
        self._planned = PlanResult(
            plan=ExperimentPlan(
                data="d", model="m", training="t", testing="t", comparison="c",
                parts=("a norm", "a gate", "a skip"), ablations=ablations,
                files=("experiment.py",), seconds=1.0, memory_mb=1.0,
            ),
            problems=problems,
        )  # fmt: skip

    async def plan(self, idea: object, concepts: object) -> PlanResult:
        return self._planned


class Analyst:
    """Asks for nothing."""

    async def next(self, *_: object) -> AnalysisReply:
        return AnalysisReply(reading="enough")


async def drive(
    bench: CampaignBench, judge: Judge, author: TreeAuthor, stages: Opened
) -> ScriptedTrials:
    return await bench.drive(judge, ScriptedProposer("a summary"), author, stages=stages)


def planned(*ablations: str) -> Opened:
    return Opened({"plan": Planner(*ablations)})


async def test_each_part_is_left_out_of_the_best(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=2, nodes=3)
    author = TreeAuthor(bench)
    stages = planned("a norm", "a gate")
    backend = await drive(bench, piloted({1: 0.4, 2: 0.7, 3: 0.5}), author, stages)
    assert lineage(bench)[3:] == [(4, 2, "ablation"), (5, 2, "ablation")]
    assert measured(backend) == {2, 4, 5}
    runs = [(task.number, task.run.kind, task.run.title) for task in author.extending]
    assert runs == [(1, "ablation", "Without a norm"), (2, "ablation", "Without a gate")]
    assert all(task.files["experiment.py"].endswith("# d2\n") for task in author.extending)
    assert "a norm" in author.extending[0].run.change
    ended = bench.state.ideas[IDEA].ended
    assert ended is not None
    assert (ended.status, ended.attempt) == ("scored", 2)
    told = bench.paths.idea(IDEA).notes.read_text()
    assert re.search("^## Attempt 4: ablation, .* 1$", told, re.MULTILINE)


async def test_they_are_bounded(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=1, further_runs=1)
    await drive(bench, piloted({}), TreeAuthor(bench), planned("a norm", "a gate"))
    assert lineage(bench) == [(1, 0, "draft"), (2, 1, "ablation")]
    none = tree_bench(tmp_path / "none", drafts=1, nodes=1, further_runs=0)
    await drive(none, piloted({}), TreeAuthor(none), planned("a norm"))
    assert len(lineage(none)) == 1


async def test_one_that_fails_leaves_the_good_result(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=1)
    author = TreeAuthor(bench)
    await drive(bench, piloted({2: CRASH}), author, planned("a norm", "a gate"))
    assert bench.ended() == {IDEA: ("scored", None)}
    assert read_rows(bench.paths).rows[1].n == bench.seeds
    assert [(task.run, task.node) for task in author.tasks] == [(1, 0)]
    assert lineage(bench)[1:] == [(2, 1, "ablation"), (3, 1, "ablation")]


async def test_a_bad_one_is_measured_all_the_same(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=1, hopeless=0.5)
    backend = await drive(bench, piloted({2: 0.01}), TreeAuthor(bench), planned("a norm"))
    assert measured(backend) == {1, 2}


async def test_where_an_analyst_asks_the_tree_does_not(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=1)
    stages = Opened({"plan": Planner("a norm"), "analyse": Analyst()})
    await drive(bench, piloted({}), TreeAuthor(bench), stages)
    assert len(lineage(bench)) == 1


async def test_a_line_does_not_either(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, search="line")
    await drive(bench, piloted({}), TreeAuthor(bench), planned("a norm"))
    assert lineage(bench) == [(1, 0, "draft")]


async def test_an_idea_that_failed_has_none(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=1)
    await drive(bench, piloted({1: CRASH}), TreeAuthor(bench), planned("a norm"))
    assert lineage(bench) == [(1, 0, "draft")]


async def test_one_that_the_machine_spoils_waits_and_is_left_at_last(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, retries=0, drafts=1, nodes=1)
    lost = piloted({2: None})
    with pytest.raises(MachineTrouble, match="idea-0001: machine failed"):
        await drive(bench, lost, TreeAuthor(bench), planned("a norm", "a gate"))
    assert bench.ended() == {}
    await drive(bench, lost, TreeAuthor(bench), planned("a norm", "a gate"))
    assert bench.ended() == {IDEA: ("scored", None)}
    assert lineage(bench) == [(1, 0, "draft"), (2, 1, "ablation")]


async def test_what_was_cut_of_a_plan_is_remarked(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=1)
    planner = Planner(problems=("part 2 is named twice",))
    stages = Opened({"plan": planner})
    await drive(bench, piloted({}), TreeAuthor(bench), stages)
    assert "> part 2 is named twice" in bench.paths.idea(IDEA).notes.read_text()
