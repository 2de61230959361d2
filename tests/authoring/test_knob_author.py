from __future__ import annotations

from authoring_kit import CODE, brief, idea, toy_recipe

from hpcscientist.authoring.knobs import KnobAuthor
from hpcscientist.ports import Author
from hpcscientist.records.authoring import CompleteTask, Draft, ExtendTask, FixTask, GaveUp
from hpcscientist.records.experiment import CodeReview, FurtherRun
from hpcscientist.records.trial import IdeaFailed, IdeaFailure


async def test_knobs_are_set_in_their_files_and_nothing_else_changes() -> None:
    author: Author = KnobAuthor(toy_recipe())
    written = await author.write(brief(knobs={"RATE": 0.25, "WIDTH": 16}))
    assert written == Draft(
        files={
            "experiment.py": CODE.replace("RATE = 0.1", "RATE = 0.25"),
            "helper.py": "WIDTH = 16  # units\n",
        },
        note="Set RATE = 0.25, WIDTH = 16.",
    )


async def test_an_idea_without_knobs_is_given_up() -> None:
    author = KnobAuthor(toy_recipe())
    assert await author.write(brief()) == GaveUp(reason="the idea sets no knobs")
    assert await author.write(brief(knobs={"OTHER": 1})) == GaveUp(
        reason="the recipe has no knob OTHER"
    )


async def test_it_does_not_debug() -> None:
    author = KnobAuthor(toy_recipe())
    task = FixTask(
        idea=idea(knobs={"RATE": 0.2}),
        files={},
        outcome=IdeaFailed(failure=IdeaFailure.TIMEOUT, detail="too slow"),
        log_tail="",
        round=1,
        rounds=3,
    )
    assert await author.fix(task) == GaveUp(reason="the control arm does not debug")


async def test_it_neither_completes_nor_extends() -> None:
    author = KnobAuthor(toy_recipe())
    task = brief(knobs={"RATE": 0.2})
    review = CodeReview(attempt=1, toy=True)
    run = FurtherRun(kind="ablation", title="t", purpose="p", change="c")
    assert await author.complete(
        CompleteTask(brief=task, files={}, review=review, round=1)
    ) == GaveUp(reason="the control arm has nothing to complete")
    assert await author.extend(ExtendTask(brief=task, files={}, run=run, number=1)) == GaveUp(
        reason="the control arm makes no further runs"
    )
