"""What a campaign has cost: folds over journals, and one of a real campaign."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored
from event_kit import driver_started

from hpcscientist.history import journal
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState, fold
from hpcscientist.history.status import status
from hpcscientist.history.upcasting import JournalLine
from hpcscientist.judgement.summary import read_rows
from hpcscientist.launching.costs import spending
from hpcscientist.launching.costs.spending import (
    Counted,
    overlap,
    servings,
    spent,
    tokens_by_role,
)
from hpcscientist.records.events import (
    CampaignEnded,
    CampaignStarted,
    DriverStarted,
    Event,
    PlaneStarted,
    PlaneStopped,
    ReplyRecorded,
    TrialEnded,
)
from hpcscientist.records.findings import Verdict
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, TrialReport, Usage

NOTHING = Counted(findings=0, improvements=0)


def lines(*events: tuple[float, Event]) -> list[JournalLine]:
    return [JournalLine(n=n, t=t, event=event) for n, (t, event) in enumerate(events, 1)]


def plane(time: float, generation: int = 1, nodes: int = 2, gpus: int = 8) -> PlaneStarted:
    return PlaneStarted(generation=generation, nodes=nodes, gpus=gpus, models=("m",), time=time)


def driver(generation: int) -> DriverStarted:
    return driver_started(generation)


def reply(call: str, latency_s: float = 1.0, *, estimated: bool = False) -> ReplyRecorded:
    return ReplyRecorded(
        idea_id="idea-0001",
        call=call,
        prompt_tokens=10,
        completion_tokens=3,
        tokens_estimated=estimated,
        latency_s=latency_s,
        role={"propose": "ideation", "review": "review"}.get(call.partition("/")[0], "code"),
        asked=1,
    )


def trial_ended(trial_id: str, cpu_s: float, gpu_s: float) -> TrialEnded:
    report = TrialReport(
        trial_id=trial_id,
        run=1,
        outcome=IdeaFailed(failure=IdeaFailure.ERROR, detail="d"),
        usage=Usage(started_at=0.0, ended_at=1.0, cpu_s=cpu_s, gpu_s=gpu_s),
    )
    return TrialEnded(idea_id="idea-0001", report=report)


class TestTokens:
    def test_go_to_the_role_that_asked(self) -> None:
        calls = ["propose/1", "code/1", "propose/1/repair1", "debug/1", "review/1"]
        ideation, code, review = tokens_by_role(lines(*((1.0, reply(call)) for call in calls)))
        assert (ideation.role, ideation.calls, ideation.prompt) == ("ideation", 2, 20)
        assert (code.role, code.calls, code.completion) == ("code", 2, 6)
        assert (review.role, review.calls) == ("review", 1)
        assert sum(code.stages.values()) == code.prompt + code.completion
        assert set(ideation.stages) == {call.partition("/")[0] for call in calls} - {
            *code.stages,
            *review.stages,
        }

    def test_go_to_the_role_that_the_event_names(self) -> None:
        named = reply("code/1").model_copy(update={"role": "review"})
        assert [role.role for role in tokens_by_role(lines((1.0, named)))] == ["review"]

    def test_say_whether_any_was_estimated(self) -> None:
        told = lines((1.0, reply("propose/1")), (1.0, reply("propose/2", estimated=True)))
        assert tokens_by_role(told)[0].estimated
        assert not tokens_by_role(told[:1])[0].estimated


class TestServing:
    def test_from_its_start_to_its_end(self) -> None:
        told = lines((100.0, plane(90.0)), (200.0, PlaneStopped(generation=1, time=190.0)))
        (found,) = servings(told)
        assert (found.start, found.end, found.unended) == (90.0, 190.0, False)
        cost = spent(told, NOTHING)
        assert cost.serving_gpu_hours == pytest.approx(100 * 8 / 3600)
        assert cost.serving_node_hours == pytest.approx(100 * 2 / 3600)

    def test_killed_one_counts_until_its_drivers_last_event(self) -> None:
        told = lines(
            (1.0, driver(1)),
            (10.0, plane(10.0)),
            (70.0, reply("propose/1")),
            (500.0, driver(2)),  # the job that went on
            (510.0, plane(505.0, generation=2)),
            (600.0, PlaneStopped(generation=2, time=599.0)),
        )
        first, second = servings(told)
        assert (first.start, first.end, first.unended) == (10.0, 70.0, True)
        assert (second.start, second.end, second.unended) == (505.0, 599.0, False)
        assert spent(told, NOTHING).unended

    def test_next_one_may_start_before_its_driver(self) -> None:
        told = lines((10.0, plane(10.0)), (20.0, reply("a/1")), (90.0, plane(80.0, generation=2)))
        assert [(part.start, part.end) for part in servings(told)] == [(10.0, 20.0), (80.0, 90.0)]

    def test_one_that_serves_still_counts_until_now(self) -> None:
        told = lines((10.0, plane(10.0)), (25.0, reply("a/1")))
        assert [(part.end, part.unended) for part in servings(told)] == [(25.0, True)]

    def test_killed_before_anything_else_costs_nothing_known(self) -> None:
        told = lines((10.0, plane(9.5)))
        assert [part.end - part.start for part in servings(told)] == [0.5]
        (found,) = servings(lines((10.0, plane(11.0))))  # clocks differ
        assert (found.start, found.end) == (11.0, 11.0)
        assert spent(lines((10.0, plane(11.0))), NOTHING).busy is None

    def test_stop_of_another_generation_ends_nothing(self) -> None:
        told = lines((10.0, plane(10.0)), (12.0, PlaneStopped(generation=7, time=11.0)))
        assert servings(told)[0].unended

    def test_without_gpus_it_is_measured_and_zero(self) -> None:
        told = lines((10.0, plane(10.0, gpus=0)), (20.0, PlaneStopped(generation=1, time=20.0)))
        assert spent(told, NOTHING).serving_gpu_hours == 0

    def test_nothing_served_is_not_zero(self) -> None:
        cost = spent(lines((1.0, reply("propose/1"))), NOTHING)
        assert cost.serving_gpu_hours is None
        assert cost.serving_node_hours is None
        assert cost.busy is None


class TestBusy:
    @pytest.mark.parametrize(
        ("requests", "seconds"),
        [
            ([], 0),
            ([(0, 5)], 0),
            ([(15, 25)], 5),  # half of it before the end
            ([(5, 12), (11, 13)], 3),  # they overlap
            ([(12, 14), (12, 14), (13, 13)], 2),
            ([(0, 99)], 10),
            ([(18, 19), (11, 12)], 2),
        ],
    )
    def test_of_one_serving(self, requests: list[tuple[float, float]], seconds: float) -> None:
        assert overlap([(10, 20)], requests) == seconds

    def test_of_two_servings(self) -> None:
        assert overlap([(30, 40), (10, 20)], [(15, 35)]) == 10

    def test_share_by_the_replies_of_the_journal(self) -> None:
        told = lines(
            (100.0, plane(100.0)),
            (130.0, reply("propose/1", 20.0)),
            (130.0, reply("code/1", 10.0)),
            (200.0, PlaneStopped(generation=1, time=200.0)),
        )
        assert spent(told, NOTHING).busy == pytest.approx(0.2)


class TestSums:
    def test_of_trials_and_calls(self) -> None:
        told = lines((1.0, reply("propose/1")), (2.0, trial_ended("t", 7200.0, 3600.0)))
        cost = spent(told, NOTHING)
        assert (cost.cpu_hours, cost.gpu_hours, cost.tokens) == (2.0, 1.0, 13)

    def test_of_an_empty_journal(self) -> None:
        cost = spent([], NOTHING)
        assert (cost.roles, cost.tokens, cost.cpu_hours) == ((), 0, 0.0)


async def test_of_a_real_campaign(tmp_path: Path) -> None:
    """The journal's count of improvements is the table's, and its sums the status'."""
    bench = CampaignBench(tmp_path, ideas=2)
    values = {"baseline": 0.5, "idea-0001": 0.9, "idea-0002": 0.2}
    await bench.drive(
        lambda spec: scored(values[spec.idea_id] * (1 + spec.seed % 7 * 1e-4)),
        ScriptedProposer("one two", "three four"),
    )
    cost = spending.read(bench.paths)
    table = [row.finding for row in read_rows(bench.paths).rows]
    assert cost.found.improvements == table.count(Verdict.IMPROVEMENT) == 1
    assert cost.found.findings == len(table) - table.count(None) == 1
    assert cost.found.confirmed == 1
    assert cost == spending.read(bench.paths, Counted(findings=1, improvements=1, confirmed=1))
    assert cost.cpu_hours == pytest.approx(status(bench.paths)["cpu_hours"])
    assert cost.roles == ()


def test_serving_is_in_a_journal_that_is_read_again(tmp_path: Path) -> None:
    """Written once a generation; the fold of the campaign's state takes no notice."""
    path = tmp_path / "journal.jsonl"
    seen: list[Event] = []
    book = Journal(path, seen.append)
    began = time.time()
    book.record(CampaignStarted(campaign_id="c"))
    assert book.record(plane(began))
    assert not book.record(plane(began + 1))
    book.record(PlaneStopped(generation=1, time=began + 3600))
    book.record(CampaignEnded())
    book.close()
    assert [line.event for line in journal.read_lines(path)] == seen
    assert spent(journal.read_lines(path), NOTHING).serving_gpu_hours == pytest.approx(8)
    assert fold(seen) == CampaignState(campaign_id="c", ended=True)
