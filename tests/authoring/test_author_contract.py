"""The port's obligations, on every adapter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from authoring_kit import CODE, PLAN, REFERENCE, ScriptedModel, edit, idea, toy_recipe

from hpcscientist.authoring import checks
from hpcscientist.authoring.coder import ModelAuthor
from hpcscientist.authoring.knobs import KnobAuthor, TwoArms
from hpcscientist.files.hashing import hash_texts
from hpcscientist.ports import Author
from hpcscientist.records.authoring import (
    Brief,
    CompleteTask,
    Draft,
    ExtendTask,
    FixTask,
    GaveUp,
    ImproveTask,
    RedraftTask,
    Variant,
)
from hpcscientist.records.experiment import CodeReview, FurtherRun
from hpcscientist.records.trial import IdeaFailed, IdeaFailure

CHANGES = [edit("STEPS = 10", "STEPS = 20")]
REPLIES = {
    "code/1": {"note": "n", "edits": [edit("RATE = 0.1", "RATE = 0.2")]},
    "debug/1": {"diagnosis": "d", "edits": CHANGES},
    "code/1001": {"note": "n", "edits": [edit("RATE = 0.1", "RATE = 0.3")]},
    "complete/1": {"note": "n", "edits": CHANGES},
    "improve/4": {"note": "n", "edits": CHANGES},
    "extend/1": {"note": "n", "edits": CHANGES},
}
NOW = {**REFERENCE, "experiment.py": CODE.replace("0.1", "0.2")}
# What the recipe lets be changed: by edits, and by setting knobs.
MAY_DIFFER = {"experiment.py", "helper.py"}

ADAPTERS: dict[str, Callable[[], Author]] = {
    "model": lambda: ModelAuthor(ScriptedModel(dict(REPLIES)), toy_recipe()),
    "model without replies": lambda: ModelAuthor(ScriptedModel({}), toy_recipe()),
    "knobs": lambda: KnobAuthor(toy_recipe()),
    "two arms": lambda: TwoArms(
        ModelAuthor(ScriptedModel(dict(REPLIES)), toy_recipe()), KnobAuthor(toy_recipe())
    ),
}


@pytest.fixture(params=ADAPTERS)
def author(request: pytest.FixtureRequest) -> Author:
    return ADAPTERS[request.param]()


def brief(number: int = 1) -> Brief:
    return Brief(idea=idea(number, {"RATE": 0.25, "WIDTH": 16}), plan=PLAN)


def fixing(*seen: dict[str, str]) -> FixTask:
    return FixTask(
        idea=brief().idea,
        files=NOW,
        outcome=IdeaFailed(failure=IdeaFailure.ERROR, detail="d"),
        log_tail="",
        round=1,
        rounds=5,
        seen=tuple(map(hash_texts, seen)),
    )


def completing(*seen: dict[str, str]) -> CompleteTask:
    review = CodeReview(attempt=1, toy=True)
    hashes = tuple(map(hash_texts, seen))
    return CompleteTask(brief=brief(), files=NOW, review=review, round=1, seen=hashes)


def extending(*seen: dict[str, str]) -> ExtendTask:
    run = FurtherRun(kind="sensitivity", title="t", purpose="p", change="c")
    hashes = tuple(map(hash_texts, seen))
    return ExtendTask(brief=brief(), files=NOW, run=run, number=1, seen=hashes)


def redrafting(*seen: dict[str, str]) -> RedraftTask:
    hashes = tuple(map(hash_texts, seen))
    return RedraftTask(brief=brief(), number=2, earlier=("RATE doubled.",), seen=hashes)


def improving(*seen: dict[str, str]) -> ImproveTask:
    return ImproveTask(
        brief=brief(),
        files=NOW,
        number=4,
        values={"score": 2.0},
        reference={"score": 1.0},
        led=("RATE doubled.",),
        tried=(Variant(note="RATE tripled.", failure="error: d"),),
        seen=tuple(map(hash_texts, seen)),
    )


def check_draft(written: Draft | GaveUp, before: dict[str, str]) -> None:
    if isinstance(written, GaveUp):
        assert written.reason
        assert "\n" not in written.reason
        return
    assert set(written.files) >= set(REFERENCE)
    differs = {name for name, text in written.files.items() if before.get(name) != text}
    assert differs
    assert differs <= MAY_DIFFER
    assert written.files != REFERENCE
    assert checks.check(written.files) == []


async def test_each_task_gives_a_draft_or_a_reason(author: Author) -> None:
    check_draft(await author.write(brief()), REFERENCE)
    check_draft(await author.redraft(redrafting()), REFERENCE)
    check_draft(await author.fix(fixing()), NOW)
    check_draft(await author.complete(completing()), NOW)
    check_draft(await author.improve(improving()), NOW)
    check_draft(await author.extend(extending()), NOW)


async def test_no_version_comes_back(author: Author) -> None:
    known = {**NOW, "experiment.py": NOW["experiment.py"].replace("10", "20")}
    tripled = {**REFERENCE, "experiment.py": CODE.replace("0.1", "0.3")}
    for task in (
        author.redraft(redrafting(tripled)),
        author.fix(fixing(known)),
        author.complete(completing(known)),
        author.improve(improving(known)),
        author.extend(extending(known)),
    ):
        assert isinstance(await task, GaveUp)


async def test_what_it_is_given_stays_as_it_was(author: Author) -> None:
    tasks = (brief(), fixing(NOW), completing(NOW), extending(NOW))
    others = (redrafting(NOW), improving(NOW))
    before = [task.model_dump_json() for task in tasks]
    first = await author.write(tasks[0])
    for ask in (author.fix(tasks[1]), author.complete(tasks[2]), author.extend(tasks[3])):
        await ask
    kept = [task.model_dump_json() for task in others]
    await author.redraft(others[0])
    await author.improve(others[1])
    assert [task.model_dump_json() for task in others] == kept
    assert [task.model_dump_json() for task in tasks] == before
    assert await author.write(tasks[0]) == first


async def test_ideas_at_once_come_out_as_one_by_one(author: Author) -> None:
    one_by_one = [await author.write(brief(number)) for number in range(1, 6)]
    at_once = await asyncio.gather(*(author.write(brief(number)) for number in range(1, 6)))
    assert at_once == one_by_one


async def test_a_tree_of_one_idea_at_once_comes_out_as_one_by_one(author: Author) -> None:
    one_by_one = [
        await author.write(brief()),
        await author.redraft(redrafting()),
        await author.improve(improving()),
    ]
    at_once = await asyncio.gather(
        author.write(brief()), author.redraft(redrafting()), author.improve(improving())
    )
    assert at_once == one_by_one
