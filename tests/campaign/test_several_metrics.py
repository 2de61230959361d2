"""Campaigns whose recipes have more than one metric."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from bench_campaign import CampaignBench, ScriptedProposer
from tree_campaign import Judge, TreeAuthor, lineage, measured, tree_bench

from hpcscientist.authoring.knobs import KnobAuthor
from hpcscientist.campaign.proposals.proposal_context import Knowledge
from hpcscientist.history import frozen, journal
from hpcscientist.ideation.search import SearchProposer
from hpcscientist.judgement.summary import read_rows
from hpcscientist.recipe.load import load
from hpcscientist.records.events import SplitSpent
from hpcscientist.records.findings import Claim, ResultRow, Verdict
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.proposing import ProposalTask, Proposed
from hpcscientist.records.trial import Outcome, Scored, Split, TrialSpec

WORDS = ("alpha beta gamma", "delta epsilon zeta", "eta theta iota")
TOLERANCE = """[[metrics]]
name = "seconds"
direction = "minimize"
tolerance = 1.0

[budgets.pilot]"""
PARETO = TOLERANCE.replace("tolerance = 1.0", "pareto = true")


def timed(spec: TrialSpec) -> Outcome:
    """All ideas gain as much. One takes a little longer, one much, one much on the test split."""
    noise = zlib.crc32(f"{spec.idea_id} {spec.seed}".encode()) % 97 / 1e4
    is_test = spec.split is Split.TEST
    longer = {"idea-0001": 0.5, "idea-0002": 3.0, "idea-0003": 3.0 if is_test else 0.5}
    gain = 0.0 if spec.idea_id == BASELINE_ID else 0.2
    seconds = 10.0 + longer.get(spec.idea_id, 0.0) + noise
    return Scored(metrics={"accuracy": 0.5 + gain + noise, "seconds": seconds})


def with_seconds(bench: CampaignBench, table: str = TOLERANCE) -> CampaignBench:
    """Give a bench's recipe a second metric, as in `table`."""
    toml = bench.recipe.folder / "recipe.toml"
    toml.write_text(toml.read_text().replace("[budgets.pilot]", table))
    scorer = bench.recipe.folder / "score.py"
    scorer.write_text(scorer.read_text() + 'ALSO = "seconds"\n')
    bench.recipe = load(bench.recipe.folder)
    bench.config = bench.config.model_copy(update={"recipe_hash": bench.recipe.recipe_hash})
    frozen.write(bench.paths, bench.config)
    return bench


def rows_of(bench: CampaignBench) -> list[ResultRow]:
    """The ideas' rows, without the baseline's."""
    return list(read_rows(bench.paths).rows[1:])


async def test_an_improvement_stays_within_the_tolerances_of_other_metrics(tmp_path: Path) -> None:
    bench = with_seconds(CampaignBench(tmp_path, ideas=3))
    await bench.drive(timed, ScriptedProposer(*WORDS))
    rows = rows_of(bench)
    assert [row.finding for row in rows] == [
        Verdict.IMPROVEMENT,
        Verdict.MAINTENANCE,
        Verdict.IMPROVEMENT,
    ]
    assert [row.confirmed for row in rows] == [True, None, False]
    assert [bool(row.reason and "seconds" in row.reason) for row in rows] == [False, True, True]
    events = journal.read(bench.paths.journal)
    spent = [event.idea_id for event in events if isinstance(event, SplitSpent)]
    assert spent == [BASELINE_ID, "idea-0001", "idea-0003"]
    claim = Claim.model_validate_json(bench.paths.idea("idea-0003").claim.read_bytes())
    assert [metric.name for metric in claim.tolerances] == ["seconds"]


async def test_metrics_together_order_ideas_and_decide_nothing(tmp_path: Path) -> None:
    """No idea is better than the baseline in both; what is worse in both is not on the front."""
    bench = with_seconds(CampaignBench(tmp_path, ideas=3), PARETO)
    gains = {"idea-0001": (0.2, 3.0), "idea-0002": (-0.1, -2.0), "idea-0003": (0.1, 4.0)}

    def measured(spec: TrialSpec) -> Outcome:
        noise = zlib.crc32(f"{spec.idea_id} {spec.seed}".encode()) % 97 / 1e4
        gain, longer = gains.get(spec.idea_id, (0.0, 0.0))
        return Scored(metrics={"accuracy": 0.5 + gain + noise, "seconds": 10.0 + longer + noise})

    await bench.drive(measured, ScriptedProposer(*WORDS))
    summary = read_rows(bench.paths)
    assert list(summary.front) == [BASELINE_ID, "idea-0001", "idea-0002"]
    findings = [row.finding for row in rows_of(bench)]
    assert findings == [Verdict.IMPROVEMENT, Verdict.DECLINE, Verdict.IMPROVEMENT]
    named = [idea for idea in (BASELINE_ID, *gains) if f"{idea} (" in summary.front_line]
    assert named == [BASELINE_ID, "idea-0001", "idea-0002"]
    spec, settings = bench.recipe.spec, bench.config.settings
    known = bench.paths, bench.state, spec.objective
    text = Knowledge(*known, settings, 10_000, 10, seeds=spec.seeds).feedback().text
    assert text.startswith(f"{summary.front_line}.\n")


def taking(seconds: Mapping[int, float]) -> Judge:
    """Later attempts are better, and take some seconds more than the baseline."""

    def judge(spec: TrialSpec) -> Outcome:
        own = spec.idea_id != BASELINE_ID
        longer = seconds.get(spec.attempt, 0.0) if own else 0.0
        accuracy = 0.5 + 0.1 * spec.attempt * own
        return Scored(metrics={"accuracy": accuracy, "seconds": 10.0 + longer})

    return judge


@pytest.mark.parametrize(
    ("table", "best"), [(TOLERANCE, {1}), (PARETO, {2}), (PARETO.replace("pareto", "#"), {2})]
)
async def test_a_tree_s_best_version_is_within_the_tolerances(
    tmp_path: Path, table: str, best: set[int]
) -> None:
    bench = with_seconds(tree_bench(tmp_path, drafts=2, nodes=2), table)
    proposer, author = ScriptedProposer(*WORDS), TreeAuthor(bench)
    backend = await bench.drive(taking({1: 0.5, 2: 3.0}), proposer, author)
    assert lineage(bench) == [(1, 0, "draft"), (2, 0, "draft")]
    assert measured(backend) == best


async def test_of_versions_that_beat_each_other_the_better_one_is_improved_first(
    tmp_path: Path,
) -> None:
    """The second version is worse than the first in both metrics, the third in one of them."""
    bench = with_seconds(tree_bench(tmp_path, drafts=3, nodes=5, workers=3), PARETO)

    def judge(spec: TrialSpec) -> Outcome:
        accuracy, seconds = {1: (0.6, 9.0), 2: (0.55, 10.0), 3: (0.5, 1.0)}.get(
            spec.attempt, (0.1, 20.0)
        )
        return Scored(metrics={"accuracy": accuracy, "seconds": seconds})

    await bench.drive(judge, ScriptedProposer(*WORDS), TreeAuthor(bench))
    improved = [parent for _, parent, kind in lineage(bench) if kind == "improve"]
    assert improved == [1, 3]


class Told(SearchProposer):
    """The control arm, which keeps its tasks."""

    tasks: ClassVar[list[ProposalTask]] = []

    async def propose(self, task: ProposalTask) -> Proposed:
        self.tasks.append(task)
        return await super().propose(task)


async def test_the_control_arm_is_told_all_metrics_that_order_ideas(tmp_path: Path) -> None:
    table = TOLERANCE.replace("tolerance", "pareto = true\ntolerance")
    bench = with_seconds(CampaignBench(tmp_path, ideas=4), table)
    proposer = Told(bench.recipe, bench.config.settings.seed)
    await bench.drive(timed, proposer, KnobAuthor(bench.recipe))
    (last,) = (task for task in proposer.tasks if task.number == 4)
    told = {past.idea_id: past for past in last.scores}
    assert list(told) == ["idea-0001", "idea-0002"]  # the third is under way
    assert [round(past.values[0], 1) for past in told.values()] == [0.7, 0.7]
    assert [round(past.values[1], 1) for past in told.values()] == [10.5, 13.0]
    assert [round(past.excess, 1) for past in told.values()] == [0.0, 2.0]
