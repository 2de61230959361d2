"""One place judges a campaign: by which rule, which ideas, and in which order."""

from __future__ import annotations

import re
import tomllib
import zlib
from pathlib import Path

import pytest
import tomli_w
from bench_campaign import CampaignBench, ScriptedProposer, scored
from event_kit import rewrite

from hpcscientist.feedback.decision import Rule
from hpcscientist.history import frozen, journal
from hpcscientist.judgement.findings import campaign_findings, rule_of
from hpcscientist.judgement.summary import read_rows
from hpcscientist.launching.costs import spending
from hpcscientist.records.findings import Finding, Verdict
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, Outcome, TrialSpec

WORDS = ("alpha beta gamma", "delta epsilon zeta", "eta theta iota", "kappa lambda mu")
GAIN = {"idea-0002": 0.05, "idea-0003": -0.05, "idea-0004": 0.05}


def outcome(spec: TrialSpec) -> Outcome:
    if spec.idea_id == "idea-0001":
        return IdeaFailed(failure=IdeaFailure.TAMPERING, detail="x")
    noise = zlib.crc32(f"{spec.idea_id} {spec.seed}".encode()) % 97 / 1e5
    return scored(0.5 + GAIN.get(spec.idea_id, 0.0) + noise)


async def driven(folder: Path, **loop: object) -> CampaignBench:
    bench = CampaignBench(folder, ideas=4, confirm=False)
    bench.configure(loop=bench.config.settings.loop.model_dump() | loop)
    frozen.write(bench.paths, bench.config)
    await bench.drive(outcome, ScriptedProposer(*WORDS))
    return bench


def judged(bench: CampaignBench, before: int | None = None) -> dict[str, Finding]:
    spec, settings = bench.recipe.spec, bench.config.settings
    return campaign_findings(bench.state, spec.objective, settings, seeds=spec.seeds, before=before)


def verdicts(found: dict[str, Finding]) -> dict[str, Verdict | None]:
    return {idea: finding.verdict for idea, finding in found.items()}


async def test_a_failed_idea_holds_up_nothing(tmp_path: Path) -> None:
    bench = await driven(tmp_path)
    assert rule_of(bench.config.settings) == Rule(q=0.05, control="online")
    assert verdicts(judged(bench)) == {
        "idea-0002": Verdict.IMPROVEMENT,
        "idea-0003": Verdict.DECLINE,
        "idea-0004": Verdict.IMPROVEMENT,
    }
    assert judged(bench, before=3).keys() == {"idea-0002"}
    assert judged(bench, before=3)["idea-0002"] == judged(bench)["idea-0002"]


async def test_an_idea_under_way_holds_up_those_behind_it(tmp_path: Path) -> None:
    bench = await driven(tmp_path)
    bench.state.ideas["idea-0003"].ended = None
    found = judged(bench)
    assert verdicts(found) == {"idea-0002": Verdict.IMPROVEMENT, "idea-0004": None}
    assert found["idea-0004"].reason == "waits for idea-0003"
    bench.configure(loop={"error_control": "batch"})
    assert verdicts(judged(bench))["idea-0004"] is Verdict.IMPROVEMENT


@pytest.mark.parametrize(
    "loop",
    [{}, {"error_control": "batch"}, {"decision": "point"}],
    ids=["online", "batch", "point"],
)
async def test_files_and_journal_are_judged_alike(tmp_path: Path, loop: dict[str, object]) -> None:
    bench = await driven(tmp_path, **loop)
    rows = {row.idea_id: row for row in read_rows(bench.paths).rows}
    found = judged(bench)
    assert {i: (f.verdict, f.p_adjusted) for i, f in found.items()} == {
        i: (rows[i].finding, rows[i].p_adjusted) for i in found
    }
    assert read_rows(bench.paths).rule == str(rule_of(bench.config.settings))
    assert spending.read(bench.paths).found.improvements == 2


async def test_an_idea_whose_files_are_gone_keeps_its_place(tmp_path: Path) -> None:
    bench = await driven(tmp_path)
    before = {row.idea_id: row for row in read_rows(bench.paths).rows}
    for trial in bench.state.full["idea-0002", 1]:
        bench.paths.trial(trial).result.unlink()
    after = {row.idea_id: row for row in read_rows(bench.paths).rows}
    assert after["idea-0002"].finding is None
    assert after["idea-0004"] == before["idea-0004"]
    assert after[BASELINE_ID] == before[BASELINE_ID]


async def test_a_campaign_from_before_the_rule_keeps_to_the_batch(tmp_path: Path) -> None:
    bench = await driven(tmp_path)
    told = tomllib.loads(bench.paths.campaign.read_text())
    del told["settings"]["loop"]["error_control"]
    bench.paths.campaign.write_text(tomli_w.dumps(told))
    assert rule_of(frozen.read(bench.paths).settings) == Rule(q=0.05, control="batch")


async def test_a_result_that_is_not_journalled_yet_is_not_missing(tmp_path: Path) -> None:
    bench = await driven(tmp_path)
    before = read_rows(bench.paths)
    late = "trial_ended/baseline-a1-baseline-4/1"
    keys = [event.key for event in journal.read(bench.paths.journal)]
    rewrite(bench.paths.journal, lambda line: keys[line["n"] - 1] != late)
    assert late in keys
    after = read_rows(bench.paths)
    assert after.missing.count == before.missing.count == 0
    assert after.missing.warning == ""
    assert {r.idea_id for r in after.rows if r.finding} == {
        r.idea_id for r in before.rows if r.finding
    }


async def test_without_the_baselines_results_no_idea_has_a_finding(tmp_path: Path) -> None:
    bench = await driven(tmp_path)
    bench.paths.trial("baseline-a1-baseline-0").result.unlink()
    summary = read_rows(bench.paths)
    assert {row.finding for row in summary.rows} == {None}
    assert re.search("the baseline's .*no idea .*`hpcsci resume`", summary.missing.warning)
