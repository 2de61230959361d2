"""The control arm beside a model: who proposes which idea, and what each arm came to."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedAuthor, ScriptedProposer, scored
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.authoring.knobs import KnobAuthor, TwoArms
from hpcscientist.config.extent import Extent
from hpcscientist.errors import MachineTrouble, PlaybookExhausted
from hpcscientist.history.entities import IdeaState, TrialState
from hpcscientist.history.state import CampaignState
from hpcscientist.judgement.arm_comparison import compare
from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.records.idea import Arm, Idea, idea_id_of
from hpcscientist.records.trial import Stage, TrialReport, Usage

TEXTS = ("warm restarts", "label smoothing", "wider layers", "early stopping", "dropout", "mixup")


def extent_of(ideas: int, control: float) -> Extent:
    return Extent(
        ideas=ideas, rounds=0, in_flight=2, lag=2, model_name="m", seed=1, control=control
    )


@given(st.integers(1, 300), st.sampled_from(["0", "0.1", "0.2", "0.25", "0.3", "0.5", "0.9"]))
def test_the_share_is_kept_from_the_first_idea_to_any(ideas: int, share: str) -> None:
    extent = extent_of(ideas, float(share))
    drawn = sum(extent.arm(number) == "control" for number in range(1, ideas + 1))
    assert drawn == ideas * Fraction(share) // 1


def row(number: int, verdict: Verdict | None, delta: float = 0.1) -> ResultRow:
    values = dict.fromkeys(ResultRow.model_fields.keys() - {"undecided"})
    return ResultRow.model_validate(
        values
        | {
            "idea_id": idea_id_of(number),
            "parent_ids": (),
            "round": 1,
            "title": "t",
            "status": "scored" if verdict else "failed",
            "finding": verdict,
            "metric": "accuracy",
            "direction": "maximize",
            "delta": delta if verdict else None,
        }
    )


def trial_of(number: int, stage: Stage, hours: float) -> TrialState:
    usage = Usage(started_at=0.0, ended_at=1.0, cpu_s=3600 * hours)
    name = f"{idea_id_of(number)}-{stage}"
    report = TrialReport(trial_id=name, run=1, outcome=scored(0.5), usage=usage)
    trial = TrialState(name, idea_id_of(number), 1, stage, 1, 1, "scored")
    trial.end(report, generation=1)
    return trial


def state_of(*ideas: tuple[Arm, float]) -> CampaignState:
    """Each idea's arm, and the hours that its search took; confirming takes hundred more."""
    trials = [
        trial_of(n, stage, own)
        for n, (_, hours) in enumerate(ideas, 1)
        for stage, own in ((Stage.SEEDS, hours), (Stage.CONFIRM, 100.0))
    ]
    return CampaignState(
        ideas={
            idea_id_of(n): IdeaState(idea_id_of(n), n, 1, "t", (), arm=arm)
            for n, (arm, _) in enumerate(ideas, 1)
        },
        trials={trial.trial_id: trial for trial in trials},
        tokens={"idea-0001": 700},
    )


class TestContest:
    def test_equal_cost_counts_the_first_ideas_that_it_pays_for(self) -> None:
        improved, same = Verdict.IMPROVEMENT, Verdict.MAINTENANCE
        rows = [row(4, improved, 0.3), row(1, improved, 0.2), row(2, same), row(3, None)]
        arms: tuple[tuple[Arm, float], ...] = (
            ("model", 2.0),
            ("control", 1.0),
            ("control", 1.5),
            ("model", 3.0),
        )
        contest = compare(rows, state_of(*arms))
        assert contest is not None
        assert (contest.hours, contest.unit) == (2.5, "CPU-hours")
        whole, equal = contest.whole["model"], contest.equal["model"]
        assert (whole.ideas, whole.scored, whole.improved, whole.best) == (2, 2, 2, 0.3)
        assert (equal.ideas, equal.improved, equal.best, equal.tokens) == (1, 1, 0.2, 700)
        assert contest.equal["control"] == contest.whole["control"]
        assert "at 2.5 CPU-hours each: model: 1 of 1 ideas improved" in contest.lines()[1]

    def test_the_smallest_delta_is_best_where_less_is_better(self) -> None:
        rows = [row(n, Verdict.IMPROVEMENT, delta) for n, delta in ((1, -0.1), (2, -0.4))]
        rows = [each.model_copy(update={"direction": "minimize"}) for each in rows]
        contest = compare(
            [*rows, row(3, None)], state_of(("model", 1.0), ("model", 1.0), ("control", 1.0))
        )
        assert contest is not None
        assert contest.whole["model"].best == -0.4

    def test_one_arm_is_no_contest(self) -> None:
        assert compare([row(1, None)], state_of(("model", 1.0))) is None


class TestShared:
    @pytest.fixture
    def bench(self, tmp_path: Path) -> CampaignBench:
        bench = CampaignBench(tmp_path, ideas=6)
        bench.configure(loop=bench.config.settings.loop.model_dump() | {"confirm": False})
        settings = bench.config.settings.model_copy(update={"control": 0.5})
        bench.config = bench.config.model_copy(update={"settings": settings})
        return bench

    async def go(self, bench: CampaignBench) -> list[tuple[str, int]]:
        author = TwoArms(ScriptedAuthor(bench.recipe), KnobAuthor(bench.recipe))
        proposer = ScriptedProposer(*TEXTS)
        backend = await bench.drive(
            lambda spec: scored(0.5), proposer, author, control=bench.control()
        )
        assert [task.number for task in proposer.tasks] == [1, 3, 5][: len(proposer.tasks)]
        told = {entry.idea_id for task in proposer.tasks for entry in task.archive}
        assert told <= {"idea-0001", "idea-0003"}  # nothing of the control arm's
        return backend.ran

    def ideas(self, bench: CampaignBench) -> dict[str, Idea]:
        return {
            idea.idea_id: Idea.model_validate_json(bench.paths.idea(idea.idea_id).idea.read_bytes())
            for idea in bench.state.in_order()
        }

    def test_each_idea_goes_to_its_arm(self, bench: CampaignBench) -> None:
        asyncio.run(self.go(bench))
        ideas = self.ideas(bench)
        assert [idea.arm for idea in ideas.values()] == ["model", "control"] * 3
        assert [idea.model for idea in ideas.values()] == ["scripted", "search"] * 3
        assert [s.arm for s in bench.state.in_order()] == ["model", "control"] * 3
        assert {s.ended.status for s in bench.state.ideas.values() if s.ended} == {"scored"}

    def test_a_second_driver_repeats_nothing_and_proposes_the_same(
        self, bench: CampaignBench
    ) -> None:
        asyncio.run(self.go(bench))
        before = self.ideas(bench)
        assert asyncio.run(self.go(bench)) == []
        assert self.ideas(bench) == before

    def test_what_the_machine_failed_is_no_outcome_for_the_search(
        self, bench: CampaignBench
    ) -> None:
        """A search told that a setting failed would draw others; after a resume it would not. So
        its arm halts, and the model's goes on.
        """
        author = TwoArms(ScriptedAuthor(bench.recipe), KnobAuthor(bench.recipe))

        async def go(lost: bool) -> None:
            await bench.drive(
                lambda spec: None if lost and spec.idea_id == "idea-0002" else scored(0.5),
                *(ScriptedProposer(*TEXTS), author),
                control=bench.control(),
            )

        with pytest.raises(MachineTrouble):
            asyncio.run(go(lost=True))
        ended = {s.number for s in bench.state.ideas.values() if s.ended}
        assert ended == {1, 3, 5}
        early = self.ideas(bench)
        asyncio.run(go(lost=False))
        ideas = self.ideas(bench)
        assert early.items() <= ideas.items()
        assert len(ideas) == 6
        assert {s.ended.status for s in bench.state.ideas.values() if s.ended} == {"scored"}

    def test_nothing_comes_after_the_idea_that_could_not_be_proposed(
        self, bench: CampaignBench
    ) -> None:
        proposer = ScriptedProposer(TEXTS[0], TEXTS[1], PlaybookExhausted("no more"), *TEXTS)
        author = TwoArms(ScriptedAuthor(bench.recipe), KnobAuthor(bench.recipe))
        for _ in range(2):  # a driver that resumes lets no other ideas in
            asyncio.run(
                bench.drive(lambda spec: scored(0.5), proposer, author, control=bench.control())
            )
            assert list(bench.state.ideas) == ["idea-0001", "idea-0002"]
