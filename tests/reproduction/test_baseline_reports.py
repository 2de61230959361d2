"""Which trials of the baseline are taken over from the rerun of another claim."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored

from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.records.events import Event, TrialEnded
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, TrialSpec
from hpcscientist.reproduction.rerun import baseline_reports


@pytest.fixture
async def beside(tmp_path: Path) -> RunPaths:
    """A folder with trials and a journal, laid out as that of a rerun is."""
    bench = CampaignBench(tmp_path, ideas=1)
    await bench.drive(lambda spec: scored(0.5), ScriptedProposer("one two"))
    return bench.paths


def specs_in(beside: RunPaths) -> list[TrialSpec]:
    files = sorted(beside.trials.glob("*/spec.json"))
    return [TrialSpec.model_validate_json(file.read_bytes()) for file in files]


def test_scores_of_the_same_baseline_are_taken_over_and_of_no_idea(beside: RunPaths) -> None:
    specs = specs_in(beside)
    baseline = {spec.trial_id for spec in specs if spec.idea_id == "baseline"}
    assert baseline
    assert len(baseline) < len(specs)
    assert set(baseline_reports([beside], specs)) == baseline
    others = [spec.model_copy(update={"seed": spec.seed + 1}) for spec in specs]
    assert baseline_reports([beside], others) == {}


def test_a_baseline_that_failed_is_run_again(beside: RunPaths) -> None:
    specs = specs_in(beside)
    late = IdeaFailed(failure=IdeaFailure.TIMEOUT, detail="past its deadline")
    before, first = journal.read(beside.journal), next(iter(baseline_reports([beside], specs)))

    def failed(event: Event) -> Event:
        if not isinstance(event, TrialEnded) or event.report.trial_id != first:
            return event
        report = event.report.model_copy(update={"outcome": late})
        return event.model_copy(update={"report": report})

    known = set(baseline_reports([beside], specs))
    beside.journal.unlink()
    written = journal.Journal(beside.journal, lambda event: None)
    for event in before:
        written.record(failed(event))
    written.close()
    assert set(baseline_reports([beside], specs)) == known - {first}


def test_a_damaged_journal_keeps_nobody_from_running_it_again(
    beside: RunPaths, tmp_path: Path
) -> None:
    specs, damaged = specs_in(beside), RunPaths(tmp_path / "damaged")
    damaged.root.mkdir()
    damaged.journal.write_text("nonsense\n" + beside.journal.read_text())
    assert baseline_reports([damaged], specs) == {}
    assert baseline_reports([damaged, beside], specs) == baseline_reports([beside], specs)
