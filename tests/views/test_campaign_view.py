"""A campaign's view: the same numbers as results, status and costs, from one pass."""

from __future__ import annotations

import json
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
from bench_campaign import CampaignBench
from drawn_campaigns import draw
from event_kit import driver_started
from result_rows import MEASURED, row

from hpcscientist.cli.main import run
from hpcscientist.feedback.statistics import noise
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal, status
from hpcscientist.judgement.summary import read_rows
from hpcscientist.launching.costs import spending
from hpcscientist.records.events import (
    CampaignStarted,
    NoteTaken,
    PlaneStarted,
    ReplyRecorded,
    TrialEnded,
)
from hpcscientist.records.findings import Verdict
from hpcscientist.views import campaign
from hpcscientist.views.campaign import CampaignView, best_row, next_command
from hpcscientist.views.cards import cards
from hpcscientist.views.comparison import compare
from hpcscientist.views.papers import number_sources, papers


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    return draw(tmp_path_factory.mktemp("drawn"), 40, control=0.3)


@pytest.fixture(scope="module")
def view(paths: RunPaths) -> CampaignView:
    return campaign.read(paths, "DIR")


def test_rows_status_and_costs_are_those_of_the_other_commands(
    paths: RunPaths, view: CampaignView
) -> None:
    assert view.summary == read_rows(paths)
    assert view.status == status.status(paths)
    assert view.spending == spending.read(paths, view.spending.found)


def test_a_serving_that_nobody_ended_counts_as_it_does_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, clock = CampaignBench(tmp_path, ideas=1), count(1000.0)
    monkeypatch.setattr("hpcscientist.history.journal.time.time", lambda: next(clock))
    writer = journal.Journal(bench.paths.journal, lambda event: None)
    writer.record(CampaignStarted(campaign_id=bench.config.campaign_id))
    for generation in (1, 2):
        writer.record(driver_started(generation))
        writer.record(
            PlaneStarted(generation=generation, nodes=2, gpus=4, models=("m",), time=next(clock))
        )
        for number in range(5):  # the last of these is the last that its driver recorded
            writer.record(NoteTaken(name=f"{generation}-{number}", text="t"))
    writer.close()
    found = campaign.read(bench.paths).spending
    assert found == spending.read(bench.paths, found.found)
    assert found.serving_node_hours == pytest.approx(2 * (6 + 6) / 3600)


def test_the_journal_is_read_once(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    read, lines = [], journal.lines

    def counted(path: Path) -> object:
        read.append(path)
        return lines(path)

    monkeypatch.setattr(journal, "lines", counted)
    monkeypatch.setattr(journal, "read_lines", None)
    monkeypatch.setattr(journal, "events", None)
    campaign.read(paths)
    assert len(read) == 1


def test_every_token_and_every_failed_trial_is_counted_once(
    paths: RunPaths, view: CampaignView
) -> None:
    events = journal.read(paths.journal)
    replies = [e for e in events if isinstance(e, ReplyRecorded)]
    assert sum(t.read for t in view.tokens) == sum(e.prompt_tokens for e in replies)
    assert sum(t.written for t in view.tokens) == sum(e.completion_tokens for e in replies)
    reports = [e.report for e in events if isinstance(e, TrialEnded)]
    failed = [r for r in reports if r.outcome.kind != "scored"]
    by_trial = [f for f in view.failures if f.whose != "none"]
    assert sum(f.trials for f in by_trial) == len(failed) > 0
    spent = sum(r.usage.cpu_s for r in failed) / 3600
    assert sum(f.cpu_hours for f in by_trial) == pytest.approx(spent)
    assert sum(s.trials for s in view.stages) == len(reports) == len(view.trials)
    rejected = [row for row in view.rows if row.status == "rejected"]
    assert sum(f.ideas for f in view.failures if f.whose == "none") == len(rejected) > 0


def test_asked_is_the_budget_of_a_trial_and_used_its_run_time(view: CampaignView) -> None:
    budgets = view.recipe.budgets
    for stage in view.stages:
        limit = budgets.pilot.seconds if stage.stage == "pilot" else budgets.full.seconds
        assert stage.asked_hours == pytest.approx(stage.trials * limit / 3600)
        spans = [t for t in view.trials if t.stage == stage.stage]
        assert stage.used_hours == pytest.approx(sum(t.run_s or 0 for t in spans) / 3600)


def test_the_best_so_far_rises_over_ideas_and_over_time(view: CampaignView) -> None:
    points = view.best.points
    scored = [row for row in view.rows if row.mean is not None and row.status != "baseline"]
    assert {p.idea_id for p in points} == {row.idea_id for row in scored}
    for order in (view.best.by_number, view.best.by_time):
        means = [points[place].mean for place in order]
        assert means == sorted(means)
        assert means[-1] == max(p.mean for p in points if p.finding is Verdict.IMPROVEMENT)
    numbers = [points[place].number for place in view.best.by_number]
    assert numbers == sorted(numbers)
    for earlier, later in pairwise(points):
        assert (earlier.seconds, earlier.hours, earlier.tokens) <= (
            later.seconds,
            later.hours,
            later.tokens,
        )


def test_the_band_holds_what_the_baseline_differs_from_itself() -> None:
    """Of twice n draws of the same code the means differ by less in 95 % of cases."""
    n, random = 5, np.random.default_rng(1)
    two = random.normal(0.9, 0.01, (20_000, 2, n))
    std = np.sqrt(two.var(axis=2, ddof=1).mean(axis=1))  # pooled, as the interval takes it
    bands = [noise(float(s), n) or 0.0 for s in std]
    inside = np.abs(two[:, 0].mean(axis=1) - two[:, 1].mean(axis=1)) < bands
    assert inside.mean() == pytest.approx(0.95, abs=0.005)
    assert noise(0.0, 5) is None
    assert noise(0.1, 1) is None


def test_the_card_has_the_seeds_that_the_row_is_made_of(
    paths: RunPaths, view: CampaignView
) -> None:
    found = {card.idea_id: card for card in cards(view, paths)}
    assert list(found) == [idea.idea_id for idea in view.ideas]
    for shown in view.rows:
        if shown.finding is None:
            continue
        card = found[shown.idea_id]
        own = [seed for seed in card.seeds if seed.split == "validation"]
        assert np.mean([seed.idea for seed in own]) == pytest.approx(shown.mean)
        deltas = [s.idea - s.baseline for s in own if s.idea is not None and s.baseline is not None]
        assert np.mean(deltas) == pytest.approx(shown.delta)
        test = [seed for seed in card.seeds if seed.split == "test"]
        assert bool(test) == (shown.test_delta is not None)
        assert card.command == f"hpcsci reproduce DIR --idea {shown.idea_id}"
        assert card.versions[-1].diff.startswith("--- a/experiment.py")
        assert card.hypothesis
        assert len(card.evidence) == 1


def test_a_damaged_or_missing_file_leaves_its_part_empty(tmp_path: Path) -> None:
    paths = draw(tmp_path, 6)
    idea = paths.idea("idea-0001")
    idea.idea.write_text("{")
    idea.verdict("novelty").unlink()
    (idea.attempt(1) / "diff.patch").unlink()
    (idea.attempt(1) / "diff.patch").symlink_to("/etc/passwd")
    card = next(iter(cards(campaign.read(paths), paths)))
    assert (card.hypothesis, card.novelty, card.versions[0].diff) == ("", "", "")


def test_papers_name_the_ideas_that_they_led_to(paths: RunPaths, view: CampaignView) -> None:
    found = {paper.paper_id: paper for paper in papers(view.ideas, paths)}
    assert sum(len(paper.built_on) for paper in found.values()) == len(view.ideas)
    assert found["arXiv:2401.00003"].kept is False
    assert found["arXiv:2401.00003"].title == "On schedule number 3"


def test_sources_name_the_trials_of_a_finding(view: CampaignView) -> None:
    values = {span.trial_id: span.value for span in view.trials if span.value is not None}
    for source in number_sources(view):
        assert np.mean([values[trial] for trial in source.trials]) == pytest.approx(source.mean)


def test_of_a_running_campaign_ideas_are_open_and_trials_without_an_end(tmp_path: Path) -> None:
    paths = draw(tmp_path, 20, ended=False)
    view = campaign.read(paths)
    assert [idea.row for idea in view.ideas if idea.status == "open"] == [None, None]
    assert {span.phase for span in view.trials if span.ended is None} == {"queued"}
    # Nobody drives it: what ran has stopped.
    assert [span.phase for span in view.trials].count("stopped") == 1
    assert view.next_command.startswith("hpcsci resume ")


IMPROVED = row(1, **MEASURED | {"delta": 0.5})
HELD = row(2, **MEASURED, confirmed=True, test_delta=0.01)


@pytest.mark.parametrize(
    ("rows", "ended", "is_driven", "command"),
    [
        ([HELD], False, True, "hpcsci watch 'a dir'"),
        ([HELD], False, False, "hpcsci resume 'a dir'"),
        ([IMPROVED, HELD], True, False, "hpcsci reproduce 'a dir' --idea idea-0002"),
        ([IMPROVED], True, False, "hpcsci reproduce 'a dir' --idea idea-0001"),
        ([], True, False, "hpcsci report 'a dir'"),
    ],
)
def test_the_next_command(rows: list, ended: bool, is_driven: bool, command: str) -> None:  # type: ignore[type-arg]
    assert next_command("a dir", rows, ended=ended, is_driven=is_driven) == command
    assert best_row([]) is None


def test_side_by_side_the_first_ideas_count_that_cost_no_more(tmp_path: Path) -> None:
    folders = [
        draw(tmp_path / n, ideas, name=n, seed=s) for n, ideas, s in (("a", 12, 1), ("b", 30, 2))
    ]
    views = [campaign.read(p) for p in folders]
    found = compare(views)
    small, large = found.sides
    assert small.equal == small.whole
    assert found.hours == pytest.approx(small.whole.hours)
    assert large.equal.hours <= found.hours < large.whole.hours
    assert 0 < large.equal.ideas < large.whole.ideas == 30
    share, low, high = large.equal.share or (0, 0, 0)
    assert share == large.equal.improved / large.equal.ideas
    assert 0 <= low <= share <= high <= 1
    assert large.curve[-1][:2] == (pytest.approx(large.whole.hours), large.whole.improved)
    assert found.differing["ideas"] == ("12", "30")


def test_status_says_the_same_as_before_in_json(
    paths: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", "--json", str(paths.root)]) == 0
    assert json.loads(capsys.readouterr().out) == status.status(paths)
