"""Facts come from what a campaign measured, and a changed record is named with number and trial."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored
from event_kit import rewrite

from hpcscientist.feedback.statistics import compare
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.history.state import fold
from hpcscientist.papers.check import check_all
from hpcscientist.papers.facts.collect import collect
from hpcscientist.papers.trace import COLUMNS, as_table, trace
from hpcscientist.records.facts import FactKind, FactSheet, Statistic
from hpcscientist.records.findings import Verdict
from hpcscientist.records.manuscript import (
    Defect,
    DefectCode,
    Manuscript,
    PaperScope,
    Section,
    parse_blocks,
)
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, Outcome, Split, TrialSpec
from hpcscientist.results import compact

GAIN = {"baseline": 0.0, "idea-0001": 0.05, "idea-0002": -0.04}
TEXT = (
    "The campaign tried {campaign.ideas.proposed} ideas, of which {campaign.ideas.failed} failed; "
    "p-values are adjusted. On test, idea-0001 has a mean accuracy of "
    "{idea-0001.test.accuracy.mean} over {idea-0001.test.accuracy.n} seeds, a gain of "
    "{idea-0001.test.accuracy.delta}."
)


class NoPapers:
    def paper(self, paper_id: str) -> None:
        return None


def judge(spec: TrialSpec) -> Outcome | None:
    if spec.idea_id == "idea-0003":
        return IdeaFailed(failure=IdeaFailure.TIMEOUT, detail="it ran past its deadline")
    noise = random.Random(spec.seed * 7 + len(spec.idea_id)).uniform(-0.004, 0.004)
    return scored(round(0.8 + GAIN[spec.idea_id] + noise, 6))


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> CampaignBench:
    made = CampaignBench(tmp_path_factory.mktemp("campaign"), ideas=3)
    asyncio.run(made.drive(judge, ScriptedProposer("one two", "three four", "five six")))
    return made


@pytest.fixture(scope="module")
def sheet(campaign: CampaignBench) -> FactSheet:
    return collect(campaign.paths).sheet


@pytest.fixture
def paths(campaign: CampaignBench, tmp_path: Path) -> RunPaths:
    """A copy that a test may change."""
    shutil.copytree(campaign.paths.root, tmp_path / "run", symlinks=True)
    return RunPaths(tmp_path / "run")


def manuscript(text: str = TEXT) -> Manuscript:
    return Manuscript(
        title="A campaign",
        abstract=parse_blocks(text),
        sections=(Section(id="results", title="Results", blocks=()),),
        scope=PaperScope(campaign_id="scripted-1"),
    )


def defects(sheet: FactSheet, paths: RunPaths) -> list[Defect]:
    return list(check_all(manuscript(), sheet, NoPapers(), paths).defects)


def test_statistics_are_those_of_the_result_files(sheet: FactSheet, paths: RunPaths) -> None:
    state = fold(journal.read(paths.journal))
    for split, read in ((Split.VALIDATION, state.scores), (Split.TEST, state.test_scores)):
        own, theirs = read("idea-0001", 1, "accuracy"), read("baseline", 1, "accuracy")
        compared = compare(theirs, own)
        facts = {
            fact.scope.statistic: fact
            for fact in sheet.facts
            if fact.id.startswith(f"idea-0001.{split}.accuracy.")
        }
        assert facts[Statistic.MEAN].value == compared.mean
        assert facts[Statistic.DELTA].value == compared.delta
        assert facts[Statistic.N].text == str(len(own))
        assert facts[Statistic.INTERVAL].value == compared.ci_low
        assert facts[Statistic.INTERVAL].upper == compared.ci_high
        assert facts[Statistic.BEST].value == max(own.values())
        rows = facts[Statistic.MEAN].source.trials
        assert {row.seed: row.value for row in rows} == own
        files = {file.file for file in facts[Statistic.MEAN].source.files}
        assert files == {f"trials/{row.trial}/result.arrow" for row in rows}


def test_counts_settings_and_code(
    sheet: FactSheet, paths: RunPaths, campaign: CampaignBench
) -> None:
    texts = {fact.id: fact.text for fact in sheet.facts}
    assert texts["campaign.ideas.proposed"] == "3"
    assert texts["campaign.ideas.failed"] == texts["campaign.ideas.failed.timeout"] == "1"
    assert (texts["campaign.ideas.improved"], texts["campaign.ideas.declined"]) == ("1", "1")
    assert (texts["campaign.ideas.confirmed"], texts["campaign.looks.test"]) == ("1", "1")
    assert texts["recipe.seeds"] == str(campaign.seeds)
    assert texts["campaign.level"] == "0.05"
    ideas = sheet.idea_by_id
    assert (ideas["idea-0001"].verdict, ideas["idea-0001"].confirmed) == (
        Verdict.IMPROVEMENT,
        True,
    )
    assert ideas["idea-0003"].failure == "timeout"
    code = [fact for fact in sheet.facts if fact.kind is FactKind.HYPERPARAMETER]
    assert code
    for fact in code:
        (file,) = fact.source.files
        assert fact.source.lines is not None
        line = (paths.root / file.file).read_text().splitlines()[fact.source.lines[0] - 1]
        assert fact.scope.of is not None
        assert line.startswith(fact.scope.of)


def test_what_is_unchanged_holds_also_after_compaction(sheet: FactSheet, paths: RunPaths) -> None:
    assert FactSheet.model_validate_json(sheet.model_dump_json()) == sheet
    checked = check_all(manuscript(), sheet, NoPapers(), paths)
    assert (checked.defects, checked.coverage.share, checked.holds) == ((), 1.0, True)
    assert compact.compact(paths) > 20
    again = collect(paths)
    assert again.problems == ()
    mean = again.sheet.by_id["idea-0001.test.accuracy.mean"]
    assert {row.file for row in mean.source.trials} == {"results/part-000001.parquet"}
    assert check_all(manuscript(), sheet, NoPapers(), paths).holds


def test_a_changed_result_file_is_named(sheet: FactSheet, paths: RunPaths) -> None:
    row = sheet.by_id["idea-0001.test.accuracy.mean"].source.trials[2]
    path = paths.root / row.file
    with pa.ipc.open_file(pa.BufferReader(path.read_bytes())) as reader:
        table = reader.read_all()
    values = table["value"].to_pylist()
    values[row.position] += 0.001
    place = table.schema.get_field_index("value")
    table = table.set_column(place, table.schema.field(place), pa.array(values))
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    found = [d for d in defects(sheet, paths) if d.code is DefectCode.CHANGED_EVIDENCE]
    assert any("idea-0001.test.accuracy.mean" in d.found and row.trial in d.fix for d in found)
    assert any("journal" in d.found and row.trial in d.found for d in found)


def test_a_lost_result_file_is_named(sheet: FactSheet, paths: RunPaths) -> None:
    row = sheet.by_id["idea-0001.test.accuracy.mean"].source.trials[0]
    (paths.root / row.file).unlink()
    found = defects(sheet, paths)
    assert any(row.trial in f"{d.found} {d.fix}" for d in found)


def test_a_changed_journal_is_named(sheet: FactSheet, paths: RunPaths) -> None:
    row = sheet.by_id["idea-0001.test.accuracy.mean"].source.trials[1]

    def change(line: dict[str, object]) -> bool:
        event = line["event"]
        assert isinstance(event, dict)
        if event["type"] == "trial_ended" and event["report"]["trial_id"] == row.trial:
            event["report"]["outcome"]["metrics"]["accuracy"] += 0.002
        return True

    rewrite(paths.journal, change)
    found = [d for d in defects(sheet, paths) if d.code is DefectCode.CHANGED_EVIDENCE]
    assert any(row.trial in d.found and "journal" in d.found for d in found)


def test_a_changed_claim_is_named(sheet: FactSheet, paths: RunPaths) -> None:
    path = paths.idea("idea-0001").claim
    claim = json.loads(path.read_bytes())
    trial = claim["evidence"]["test"]["idea"][0]
    trial["metrics"]["accuracy"] += 0.003
    path.write_text(json.dumps(claim))
    found = [d for d in defects(sheet, paths) if d.code is DefectCode.CHANGED_EVIDENCE]
    assert any("claim.json" in d.found and trial["trial_id"] in d.found for d in found)


def test_a_changed_fact_list_is_named(sheet: FactSheet, paths: RunPaths) -> None:
    """Somebody edits facts.json: the number is computed anew, and is another."""
    facts = tuple(
        fact.model_copy(update={"text": "0.99"})
        if fact.id == "idea-0001.test.accuracy.mean"
        else fact
        for fact in sheet.facts
    )
    found = defects(sheet.model_copy(update={"facts": facts}), paths)
    assert [d.code for d in found] == [DefectCode.CHANGED_EVIDENCE]


def test_each_number_is_traced(sheet: FactSheet, paths: RunPaths) -> None:
    rows = trace(manuscript(), sheet)
    assert [row.formula for row in rows] == [
        "campaign.ideas.proposed",
        "campaign.ideas.failed",
        "idea-0001.test.accuracy.mean",
        "idea-0001.test.accuracy.n",
        "idea-0001.test.accuracy.delta",
    ]
    delta = rows[4]
    assert len(delta.trials) == 2 * len(rows[2].trials)  # the baseline's too
    assert {row.row_hash for row in delta.trials} >= {row.row_hash for row in rows[2].trials}
    assert all(len(file.sha256) == 64 for file in delta.files)
    assert all(len(line) == len(COLUMNS) for line in as_table(rows))
    (lost,) = trace(manuscript("{no.such.fact}"), sheet)
    assert "no.such.fact" in lost.problem
