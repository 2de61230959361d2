"""An idea's way from its plan to its last run: scripted helpers, the real conductor and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedAuthor, ScriptedProposer, ScriptedTrials, scored

from hpcscientist.authoring import attempts
from hpcscientist.campaign.stages import Opened
from hpcscientist.conduct.strategy.linear import FAR_WORSE, NOTHING_DONE, objected
from hpcscientist.errors import MachineTrouble
from hpcscientist.history import journal
from hpcscientist.judgement.summary import read_rows
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.authoring import Brief, CompleteTask, Draft, ExtendTask, GaveUp
from hpcscientist.records.events import AttemptReviewed, AttemptWritten
from hpcscientist.records.experiment import (
    AnalysisReply,
    CodeReview,
    ConceptCheck,
    FurtherRun,
    Implemented,
    RunKind,
    RunOutcome,
)
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import (
    IdeaFailed,
    IdeaFailure,
    Outcome,
    Stage,
    TrialSpec,
    trial_name,
)

CRASH = IdeaFailed(failure=IdeaFailure.ERROR, detail="ValueError: x")
Judge = Callable[[TrialSpec], Outcome | None]


def even(spec: TrialSpec) -> Outcome:
    return scored(0.5)


def seen_as(**states: Implemented) -> CodeReview:
    checks = (ConceptCheck(concept=c, state=s, remark=f"see {c}") for c, s in states.items())
    return CodeReview(attempt=1, checks=tuple(checks), marks=(3,), advice="more")


WHOLE, PART = seen_as(norm="implemented"), seen_as(norm="partial")


class Advisor:
    """Reviews as it was told, once an attempt; remembers what it was asked."""

    def __init__(self, *reviews: CodeReview) -> None:
        self._reviews = reviews
        self.asked: list[tuple[int, bool]] = []

    async def review(
        self, brief: Brief, attempt: int, files: Mapping[str, str], same_as_reference: bool
    ) -> CodeReview:
        review = self._reviews[len(self.asked)]
        self.asked.append((attempt, same_as_reference))
        return review.model_copy(
            update={"attempt": attempt, "same_as_reference": same_as_reference}
        )


class Analyst:
    """Asks for the runs it was told to; remembers what it was shown."""

    def __init__(self, *kinds: RunKind) -> None:
        self._kinds = kinds
        self.shown: list[tuple[RunOutcome, ...]] = []

    async def next(
        self,
        brief: Brief,
        outcomes: tuple[RunOutcome, ...],
        baseline: RunOutcome,
        curves: Mapping[int, str],
        number: int,
    ) -> AnalysisReply | None:
        self.shown.append(outcomes)
        assert baseline.values["accuracy"][2] > 1
        if number > len(self._kinds):
            return AnalysisReply(reading="done")
        run = FurtherRun(kind=self._kinds[number - 1], title=f"r{number}", purpose="p", change="c")
        return AnalysisReply(reading="more", run=run)


class Author(ScriptedAuthor):
    """Completes and extends as long as it was told to."""

    def __init__(self, recipe: Recipe, completes: int = 0, fixes: int = 0) -> None:
        super().__init__(recipe, fixes)
        self._completes = completes
        self.completing: list[CompleteTask] = []
        self.extending: list[ExtendTask] = []

    async def complete(self, task: CompleteTask) -> Draft | GaveUp:
        self.completing.append(task)
        if task.round > self._completes:
            return GaveUp(reason="cannot add it")
        return self._draft(f"{task.brief.idea.idea_id} completed {task.round}")

    async def extend(self, task: ExtendTask) -> Draft | GaveUp:
        self.extending.append(task)
        return self._draft(f"{task.brief.idea.idea_id} run {task.number}")


async def drive(
    bench: CampaignBench,
    judge: Judge,
    author: Author,
    *,
    advisor: Advisor | None = None,
    analyst: Analyst | None = None,
) -> ScriptedTrials:
    stages = Opened({"advise": advisor, "analyse": analyst})
    return await bench.drive(judge, ScriptedProposer("alpha beta"), author, stages=stages)


def written(bench: CampaignBench) -> list[tuple[int, int, str]]:
    """Attempts in the order of the journal: number, parent, kind."""
    events = journal.read(bench.paths.journal)
    return [(e.attempt, e.parent, e.kind) for e in events if isinstance(e, AttemptWritten)]


def stages(backend: ScriptedTrials, stage: Stage) -> list[str]:
    mark = trial_name("", 0, stage, 0).removeprefix("-a0").removesuffix("0")
    return [t for t, _ in backend.ran if mark in t and not t.startswith(BASELINE_ID)]


class TestPilot:
    async def test_a_hopeless_one_goes_no_further(self, tmp_path: Path) -> None:
        bench = CampaignBench(tmp_path, ideas=1)

        def judge(spec: TrialSpec) -> Outcome:
            return scored(0.8 if spec.idea_id == BASELINE_ID else 0.3)

        author = Author(bench.recipe, fixes=1)  # which may be a mistake, so it is fixed once
        backend = await drive(bench, judge, author)
        status, reason = bench.ended()["idea-0001"]
        assert status == "failed"
        assert reason == (
            "hopeless: its pilot has accuracy 0.3, the reference's 0.8, and authoring.hopeless "
            "is 0.5"
        )
        (task,) = author.tasks
        assert task.outcome == objected(f"{FAR_WORSE} ({reason})")
        assert stages(backend, Stage.SEEDS) == []
        assert read_rows(bench.paths).rows[1].reason == reason

    async def test_a_hopeless_one_that_is_fixed_goes_on(self, tmp_path: Path) -> None:
        bench = CampaignBench(tmp_path, ideas=1)

        def judge(spec: TrialSpec) -> Outcome:
            return scored(0.3 if spec.idea_id != BASELINE_ID and spec.attempt == 1 else 0.8)

        await drive(bench, judge, Author(bench.recipe, fixes=1))
        assert bench.ended() == {"idea-0001": ("scored", None)}
        assert written(bench) == [(1, 0, "draft"), (2, 1, "debug")]

    async def test_a_hopeless_one_goes_not_back_to_an_author_who_has_a_reviewer(
        self, tmp_path: Path
    ) -> None:
        bench = CampaignBench(tmp_path, ideas=1)
        author = Author(bench.recipe, fixes=1)

        def judge(spec: TrialSpec) -> Outcome:
            return scored(0.8 if spec.idea_id == BASELINE_ID else 0.3)

        await drive(bench, judge, author, advisor=Advisor(WHOLE))
        assert bench.ended()["idea-0001"][0] == "failed"
        assert author.tasks == []

    @pytest.mark.parametrize(("share", "status"), [(0.0, "scored"), (0.7, "scored")])
    async def test_the_share_is_configured(self, tmp_path: Path, share: float, status: str) -> None:
        bench = CampaignBench(tmp_path, ideas=1)
        bench.configure(authoring={"hopeless": share})

        def judge(spec: TrialSpec) -> Outcome:
            return scored(0.8 if spec.idea_id == BASELINE_ID else 0.3)

        await drive(bench, judge, Author(bench.recipe))
        assert bench.ended()["idea-0001"][0] == status

    async def test_without_a_gate_the_reference_has_no_pilot(self, tmp_path: Path) -> None:
        bench = CampaignBench(tmp_path, ideas=1)
        bench.configure(authoring={"hopeless": 0.0})
        backend = await drive(bench, even, Author(bench.recipe))
        assert len(backend.ran) == 1 + 2 * bench.seeds


class TestReview:
    async def test_a_whole_implementation_is_run_at_once(self, tmp_path: Path) -> None:
        bench, advisor = CampaignBench(tmp_path, ideas=1), Advisor(WHOLE)
        await drive(bench, even, Author(bench.recipe), advisor=advisor)
        assert advisor.asked == [(1, False)]
        assert bench.ended() == {"idea-0001": ("scored", None)}
        path = bench.paths.idea("idea-0001").review(1)
        assert CodeReview.model_validate_json(path.read_bytes()).complete

    async def test_a_part_goes_back_and_is_completed(self, tmp_path: Path) -> None:
        bench, advisor = CampaignBench(tmp_path, ideas=1), Advisor(PART, WHOLE)
        author = Author(bench.recipe, completes=1)
        backend = await drive(bench, even, author, advisor=advisor)
        assert written(bench) == [(1, 0, "draft"), (2, 1, "complete")]
        assert [task.review.lacking[0].concept for task in author.completing] == ["norm"]
        assert bench.ended() == {"idea-0001": ("scored", None)}
        assert {t.split("-")[2] for t in stages(backend, Stage.SEEDS)} == {"a2"}
        events = journal.read(bench.paths.journal)
        reviewed = [e for e in events if isinstance(e, AttemptReviewed)]
        assert [(e.attempt, e.complete, e.marks) for e in reviewed] == [
            (1, False, (3,)),
            (2, True, (3,)),
        ]

    async def test_what_stays_lacking_is_run_and_said(self, tmp_path: Path) -> None:
        bench, advisor = CampaignBench(tmp_path, ideas=1), Advisor(PART, PART, PART)
        await drive(bench, even, Author(bench.recipe, completes=9), advisor=advisor)
        assert [attempt for attempt, _ in advisor.asked] == [1, 2, 3]  # two go back, by default
        assert bench.ended() == {"idea-0001": ("scored", "norm is partial")}

    async def test_what_cannot_be_completed_is_run_as_it_is(self, tmp_path: Path) -> None:
        bench, advisor = CampaignBench(tmp_path, ideas=1), Advisor(PART)
        backend = await drive(bench, even, Author(bench.recipe), advisor=advisor)
        assert bench.ended() == {"idea-0001": ("scored", "norm is partial")}
        assert len(stages(backend, Stage.PILOT)) == 1

    async def test_a_completion_that_fails_does_not_discard_what_ran(self, tmp_path: Path) -> None:
        bench, advisor = CampaignBench(tmp_path, ideas=1), Advisor(PART)

        def judge(spec: TrialSpec) -> Outcome:
            return CRASH if spec.attempt > 1 else scored(0.5)

        author = Author(bench.recipe, completes=1)
        await drive(bench, judge, author, advisor=advisor)
        assert bench.ended() == {"idea-0001": ("scored", "norm is partial")}
        assert read_rows(bench.paths).rows[1].n == bench.seeds

    async def test_a_completion_that_is_hopeless_does_not_either(self, tmp_path: Path) -> None:
        bench, advisor = CampaignBench(tmp_path, ideas=1), Advisor(PART)

        def judge(spec: TrialSpec) -> Outcome:
            return scored(0.1 if spec.attempt > 1 else 0.5)

        await drive(bench, judge, Author(bench.recipe, completes=1), advisor=advisor)
        assert bench.ended() == {"idea-0001": ("scored", "norm is partial")}
        assert read_rows(bench.paths).rows[1].mean == pytest.approx(0.5)

    async def test_a_completion_that_does_nothing_does_not_either(self, tmp_path: Path) -> None:
        bench, advisor = CampaignBench(tmp_path, ideas=1), Advisor(PART, WHOLE)
        bench.configure(authoring={"advice_rounds": 1})
        bench.catches_nothing_done = True
        bench.predictions = lambda spec: "own" if spec.trial_id.startswith("idea-0001-a1") else "r"
        await drive(bench, even, Author(bench.recipe, completes=1), advisor=advisor)
        assert advisor.asked == [(1, False), (2, True)]
        assert bench.ended() == {"idea-0001": ("scored", "norm is partial")}

    async def test_what_stands_is_told_with_its_own_review(self, tmp_path: Path) -> None:
        bench, advisor = CampaignBench(tmp_path, ideas=1), Advisor(PART, WHOLE)

        def judge(spec: TrialSpec) -> Outcome:
            return CRASH if spec.attempt == 2 and spec.stage is Stage.SEEDS else scored(0.5)

        await drive(bench, judge, Author(bench.recipe, completes=1), advisor=advisor)
        assert bench.ended() == {"idea-0001": ("scored", "norm is partial")}
        found = read_rows(bench.paths).quality
        assert found is not None
        assert found.completeness == 0.0

    async def test_a_pretended_method_is_told(self, tmp_path: Path) -> None:
        toy = WHOLE.model_copy(update={"toy": True})
        bench, advisor = CampaignBench(tmp_path, ideas=1), Advisor(toy)
        await drive(bench, even, Author(bench.recipe), advisor=advisor)
        assert bench.ended() == {"idea-0001": ("scored", "the method is only pretended")}

    async def test_who_gave_up_has_given_up_for_good(self, tmp_path: Path) -> None:
        """A driver that resumes might get an answer; then attempts would be counted otherwise."""
        bench = CampaignBench(tmp_path, ideas=1, machine_retries=0)

        def lost(spec: TrialSpec) -> Outcome | None:
            ill = spec.idea_id != BASELINE_ID and spec.stage is Stage.SEEDS
            return None if ill else scored(0.5)

        with pytest.raises(MachineTrouble):
            await drive(bench, lost, Author(bench.recipe), advisor=Advisor(PART))
        author = Author(bench.recipe, completes=1)
        await drive(bench, even, author, advisor=Advisor(PART))
        assert author.completing == []
        assert bench.ended() == {"idea-0001": ("scored", "norm is partial")}

    async def test_tampering_while_completing_ends_it(self, tmp_path: Path) -> None:
        bench, advisor = CampaignBench(tmp_path, ideas=1), Advisor(PART)
        caught = IdeaFailed(failure=IdeaFailure.TAMPERING, detail="it wrote result.arrow")

        def judge(spec: TrialSpec) -> Outcome:
            return caught if spec.attempt > 1 else scored(0.5)

        await drive(bench, judge, Author(bench.recipe, completes=1), advisor=advisor)
        assert bench.ended()["idea-0001"][0] == "failed"

    async def test_nothing_done_is_caught(self, tmp_path: Path) -> None:
        bench, advisor = CampaignBench(tmp_path, ideas=1), Advisor(WHOLE, WHOLE)
        bench.catches_nothing_done = True
        author = Author(bench.recipe, completes=1)
        await drive(bench, even, author, advisor=advisor)
        assert advisor.asked == [(1, False)]
        bench = CampaignBench(tmp_path / "same", ideas=1)
        bench.catches_nothing_done = True
        bench.predictions = lambda spec: "all the same"
        advisor = Advisor(WHOLE, WHOLE)
        backend = await drive(bench, even, Author(bench.recipe, completes=1), advisor=advisor)
        assert advisor.asked == [(1, True), (2, True)]
        assert bench.ended() == {"idea-0001": ("failed", NOTHING_DONE)}
        assert stages(backend, Stage.SEEDS) == []

    async def test_without_a_reviewer_what_does_nothing_is_fixed(self, tmp_path: Path) -> None:
        def same(spec: TrialSpec) -> str:
            return "another" if spec.attempt == 3 else "all the same"

        bench = CampaignBench(tmp_path, ideas=1, debug_rounds=2)
        bench.catches_nothing_done, bench.predictions = True, same
        author = Author(bench.recipe, fixes=2)
        await drive(bench, even, author)
        assert [task.outcome for task in author.tasks] == [objected(NOTHING_DONE)] * 2
        assert bench.ended() == {"idea-0001": ("scored", None)}

    @pytest.mark.parametrize("fixes", [0, 1])
    async def test_what_is_not_fixed_fails(self, tmp_path: Path, fixes: int) -> None:
        bench = CampaignBench(tmp_path, ideas=1, debug_rounds=1)
        bench.catches_nothing_done, bench.predictions = True, lambda spec: "all the same"
        backend = await drive(bench, even, Author(bench.recipe, fixes=fixes))
        status, reason = bench.ended()["idea-0001"]
        assert status == "failed"
        assert NOTHING_DONE in (reason or "")
        assert stages(backend, Stage.SEEDS) == []


class TestQuality:
    async def test_completeness_and_correctness_of_what_stands(self, tmp_path: Path) -> None:
        bench, advisor = CampaignBench(tmp_path, ideas=1), Advisor(PART, WHOLE)
        await drive(bench, even, Author(bench.recipe, completes=1), advisor=advisor)
        found = read_rows(bench.paths).quality
        assert found is not None
        assert (found.completeness, found.judgements, found.correctness) == (1.0, 1, 3.0)

    async def test_what_stays_lacking_is_not_complete(self, tmp_path: Path) -> None:
        bench, advisor = CampaignBench(tmp_path, ideas=1), Advisor(PART)
        await drive(bench, even, Author(bench.recipe), advisor=advisor)
        found = read_rows(bench.paths).quality
        assert found is not None
        assert (found.ideas, found.completeness) == (1, 0.0)

    async def test_none_where_nothing_was_reviewed(self, tmp_path: Path) -> None:
        bench = CampaignBench(tmp_path, ideas=1)
        await drive(bench, even, Author(bench.recipe))
        assert read_rows(bench.paths).quality is None


class TestNotes:
    async def test_the_journal_tells_each_step(self, tmp_path: Path) -> None:
        bench = CampaignBench(tmp_path, ideas=1)

        def judge(spec: TrialSpec) -> Outcome:
            return CRASH if spec.attempt == 3 else scored(0.5)

        author = Author(bench.recipe, completes=1)
        helpers = {"advisor": Advisor(PART, WHOLE), "analyst": Analyst("ablation")}
        await drive(bench, judge, author, **helpers)  # type: ignore[arg-type]
        notes = bench.paths.idea("idea-0001").notes.read_text()
        heads = [line for line in notes.splitlines() if line.startswith("#")]
        assert heads == [
            "# idea-0001: Idea 1",
            "## Plan",
            "## Attempt 1: first version",
            "### Pilot",
            "### Review",
            "## Attempt 2: completion",
            "### Pilot",
            "### Review",
            "### Full run",
            "## Reading 1",
            "## Attempt 3: ablation, further run 1",
            "### Pilot",
            "## No repair, further run 1",
            "## Reading 2",
            "## In the end",
        ]
        assert "cannot" not in notes
        assert notes.count("norm: partial") == 1


class TestFurtherRuns:
    async def test_an_ablation_may_be_as_bad_as_it_likes(self, tmp_path: Path) -> None:
        bench, analyst = CampaignBench(tmp_path, ideas=1), Analyst("ablation")

        def judge(spec: TrialSpec) -> Outcome:
            return scored(0.1 if spec.attempt == 2 else 0.5)

        await drive(bench, judge, Author(bench.recipe), analyst=analyst)
        assert analyst.shown[-1][1].values["accuracy"][0] == pytest.approx(0.1)

    async def test_after_one_that_is_given_up_nothing_is_built_on_it(self, tmp_path: Path) -> None:
        bench = CampaignBench(tmp_path, ideas=1, machine_retries=0)

        def judge(spec: TrialSpec) -> Outcome | None:
            return None if spec.attempt == 2 else scored(0.5)

        with pytest.raises(MachineTrouble):
            await drive(
                bench, judge, Author(bench.recipe), analyst=Analyst("ablation", "follow-up")
            )
        await drive(bench, judge, Author(bench.recipe), analyst=Analyst("ablation", "follow-up"))
        assert bench.ended() == {"idea-0001": ("scored", None)}
        assert written(bench) == [(1, 0, "draft"), (2, 1, "ablation")]

    async def test_they_are_done_and_the_main_run_stands(self, tmp_path: Path) -> None:
        bench, analyst = CampaignBench(tmp_path, ideas=1), Analyst("ablation", "follow-up")

        def judge(spec: TrialSpec) -> Outcome:
            return scored(0.5 + 0.1 * spec.attempt)

        author = Author(bench.recipe)
        await drive(bench, judge, author, analyst=analyst)
        assert written(bench) == [(1, 0, "draft"), (2, 1, "ablation"), (3, 1, "follow-up")]
        row = read_rows(bench.paths).rows[1]
        assert (row.status, row.mean, row.n) == ("scored", pytest.approx(0.6), bench.seeds)
        assert [len(shown) for shown in analyst.shown] == [1, 2, 3]
        last = analyst.shown[-1]
        assert [o.kind for o in last] == ["main", "ablation", "follow-up"]
        assert [o.attempt for o in last] == [1, 2, 3]
        assert [o.values["accuracy"][0] for o in last] == pytest.approx([0.6, 0.7, 0.8])

    async def test_a_failing_one_leaves_the_good_result(self, tmp_path: Path) -> None:
        bench, analyst = CampaignBench(tmp_path, ideas=1), Analyst("ablation", "sensitivity")

        def judge(spec: TrialSpec) -> Outcome:
            return CRASH if spec.attempt == 2 else scored(0.5)

        await drive(bench, judge, Author(bench.recipe), analyst=analyst)
        assert bench.ended() == {"idea-0001": ("scored", None)}
        ablation, sensitivity = analyst.shown[-1][1:]
        assert ablation.failure == "error: ValueError: x; given up: no more ideas"
        assert sensitivity.failure is None
        assert read_rows(bench.paths).rows[1].n == bench.seeds

    async def test_they_are_bounded(self, tmp_path: Path) -> None:
        bench, analyst = CampaignBench(tmp_path, ideas=1), Analyst(*(["follow-up"] * 9))
        bench.configure(authoring={"further_runs": 2})
        await drive(bench, even, Author(bench.recipe), analyst=analyst)
        assert len(analyst.shown) == 3  # the last one reads what came of the second run
        assert len(written(bench)) == 3

    async def test_each_has_its_own_rounds_of_debugging(self, tmp_path: Path) -> None:
        bench, analyst = CampaignBench(tmp_path, ideas=1, debug_rounds=1), Analyst("ablation")

        def judge(spec: TrialSpec) -> Outcome:
            ill = spec.attempt in (1, 3) and spec.idea_id != BASELINE_ID
            return CRASH if ill else scored(0.5)

        author = Author(bench.recipe, fixes=1)
        await drive(bench, judge, author, analyst=analyst)
        assert [(task.run, task.round) for task in author.tasks] == [(0, 1), (1, 1)]
        assert written(bench)[1:] == [(2, 1, "debug"), (3, 2, "ablation"), (4, 3, "debug")]

    async def test_one_that_the_machine_spoils_waits_for_it(self, tmp_path: Path) -> None:
        bench = CampaignBench(tmp_path, ideas=1, machine_retries=0)

        def judge(spec: TrialSpec) -> Outcome | None:
            return None if spec.attempt == 2 else scored(0.5)

        with pytest.raises(MachineTrouble, match="idea-0001: machine failed"):
            await drive(bench, judge, Author(bench.recipe), analyst=Analyst("ablation"))
        assert bench.ended() == {}
        await drive(bench, even, Author(bench.recipe), analyst=Analyst("ablation"))
        assert bench.ended() == {"idea-0001": ("scored", None)}


async def test_resume_does_nothing_again(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)

    def helpers() -> tuple[Author, Advisor, Analyst]:
        return Author(bench.recipe, completes=1), Advisor(PART, WHOLE), Analyst("ablation")

    author, advisor, analyst = helpers()
    await drive(bench, even, author, advisor=advisor, analyst=analyst)
    lines = bench.paths.journal.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b'"idea_ended"' not in line]
    bench.paths.journal.write_bytes(b"".join(kept))
    author, advisor, analyst = helpers()
    backend = await drive(bench, even, author, advisor=advisor, analyst=analyst)
    assert backend.ran == []
    assert advisor.asked == []  # their reviews are kept
    keys = [event.key for event in journal.read(bench.paths.journal)]
    assert len(keys) == len(set(keys)) == len(lines) + 1  # the other driver's start
    draft = attempts.load(bench.paths.idea("idea-0001"), 3)
    assert draft is not None
    assert draft.files.keys() == bench.recipe.reference.keys()


def test_reasons_name_every_lacking_concept() -> None:
    review = seen_as(a="missing", b="implemented", c="partial")
    lacking: Sequence[ConceptCheck] = review.lacking
    assert [(c.concept, c.state) for c in lacking] == [("a", "missing"), ("c", "partial")]


async def test_what_an_error_came_of_is_told_with_it(tmp_path: Path) -> None:
    class Broken(Author):
        async def write(self, brief: Brief) -> Draft | GaveUp:
            raise OSError("cannot write") from KeyError("the cause")

    bench = CampaignBench(tmp_path, ideas=1)
    with pytest.raises(OSError, match="cannot write") as caught:
        await drive(bench, even, Broken(bench.recipe))
    assert isinstance(caught.value.__cause__, KeyError)
