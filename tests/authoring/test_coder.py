from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from authoring_kit import CODE, REFERENCE, ScriptedModel, brief, edit, idea, toy_recipe

from hpcscientist.authoring.coder import ModelAuthor
from hpcscientist.authoring.edits.units import units_of
from hpcscientist.authoring.revising import GIVEN_BACK, REPEATS
from hpcscientist.authoring.revising import UNCHANGED as NO_CHANGE
from hpcscientist.config.settings import CODE as SETTINGS
from hpcscientist.config.settings import AuthoringSettings
from hpcscientist.errors import EndpointError
from hpcscientist.files.hashing import hash_texts
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.models.prompting.fitting import GONE, TokenEstimate, Window
from hpcscientist.ports import Author
from hpcscientist.recipe.load import load, shipped_folder
from hpcscientist.records.authoring import Brief, Draft, FixTask, GaveUp
from hpcscientist.records.idea import Proposal, idea_id_of
from hpcscientist.records.trial import IdeaFailed, IdeaFailure

GOOD = {"note": "Doubled.", "edits": [edit("RATE = 0.1", "RATE = 0.2")]}
DOUBLED = {**REFERENCE, "experiment.py": CODE.replace("0.1", "0.2")}
NOT_FOUND = {"note": "n", "edits": [edit("RATE = 0.5", "RATE = 0.2")]}
SYNTAX = {"note": "n", "edits": [edit("RATE = 0.1", "RATE = = 0.2")]}
UNCHANGED = {"note": "n", "edits": []}
FORBIDDEN = {"note": "n", "edits": [edit(None, "X = 1\n", file="helper.py")]}

PLAIN = AuthoringSettings(analysis=False)

LOG = (
    "Traceback (most recent call last):\n"
    '  File "/scratch/t-1/code/experiment.py", line 9, in <module>\n    main()\n'
    '  File "/scratch/t-1/code/experiment.py", line 6, in main\n    print(RATE * STEPS)\n'
    "OverflowError: too large\n"
)


def author(replies: dict[str, Any]) -> tuple[ModelAuthor, ScriptedModel]:
    """Return an author that fixes without a model's analysis, and its model."""
    model = ScriptedModel(replies)
    return ModelAuthor(model, toy_recipe(), authoring=PLAIN), model


def failed(round_number: int = 1, seen: tuple[str, ...] = (), log: str = LOG) -> FixTask:
    return FixTask(
        idea=idea(),
        files=DOUBLED,
        outcome=IdeaFailed(failure=IdeaFailure.ERROR, detail="exit code 1"),
        log_tail=log,
        round=round_number,
        rounds=4,
        earlier=("the first diagnosis",) if round_number > 1 else (),
        seen=seen,
    )


def fix(*edits: dict[str, Any], **more: object) -> dict[str, object]:
    return {"diagnosis": "RATE is too large.", "edits": list(edits), **more}


@pytest.mark.parametrize(("round_number", "first"), [(1, "debug-part/1"), (4, "debug/4")])
async def test_all_repairs_by_parts_but_the_last_are_at_once_of_the_part_that_failed(
    round_number: int, first: str
) -> None:
    code = DOUBLED["experiment.py"].replace("RATE * STEPS", "RATE @ STEPS")
    line = code.split("\n").index("    print(RATE @ STEPS)") + 1
    log = (
        'Traceback (most recent call last):\n  File "experiment.py", line 9, in <module>\n'
        f'    main()\n  File "experiment.py", line {line}, in main\n    print(RATE @ STEPS)\n'
        "TypeError: unsupported operand type(s) for @: 'float' and 'int'\n"
    )
    task = failed(round_number, log=log)
    model = ScriptedModel({"debug-part/1": "    print(RATE * 3)\n```"})
    parts = AuthoringSettings(edits="parts", analysis=False)
    coder = ModelAuthor(model, toy_recipe(), authoring=parts)
    found = await coder.fix(task.model_copy(update={"files": {**DOUBLED, "experiment.py": code}}))
    assert model.keys[0] == first
    assert isinstance(found, Draft) is (round_number == 1)


async def test_a_first_version_is_the_edited_reference() -> None:
    coder, model = author({"code/1": GOOD})
    port: Author = coder
    assert await port.write(brief()) == Draft(files=DOUBLED, note="Doubled.")
    prompt = model.asked[0].messages[0].content
    for part in (CODE.rstrip(), "Double RATE.", "--budget pilot|full", "WIDTH = 8"):
        assert part in prompt
    assert model.asked[0].schema_name == "CodeReply"
    assert model.asked[0].seed is not None


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (NOT_FOUND, "'RATE = 0.5'"),
        (SYNTAX, "experiment.py:1: syntax error"),
        (UNCHANGED, NO_CHANGE),
        (FORBIDDEN, "editable: experiment.py"),
    ],
)
async def test_rejected_edits_go_back_with_the_reason(bad: dict[str, Any], problem: str) -> None:
    coder, model = author({"code/1": bad, "code/2": GOOD})
    assert await coder.write(brief()) == Draft(files=DOUBLED, note="Doubled.")
    first, reply, repair = model.asked[1].messages
    assert first.content.startswith(model.asked[0].messages[0].content[:200])
    assert reply.role == "assistant"
    assert problem in repair.content


async def test_after_two_repairs_the_idea_is_given_up() -> None:
    coder, model = author({"code/1": NOT_FOUND, "code/2": UNCHANGED, "code/3": SYNTAX})
    written = await coder.write(brief())
    assert isinstance(written, GaveUp)
    assert "2 repairs: experiment.py:1: syntax" in written.reason
    assert model.keys == ["code/1", "code/2", "code/3"]
    # The prompt holds the latest rejected reply alone.
    assert len(model.asked[2].messages) == 3


async def test_repairs_of_form_and_of_edits_have_keys_of_their_own() -> None:
    coder, model = author(
        {"code/1": "no JSON", "code/1/repair1": NOT_FOUND, "code/2": "none", "code/2/repair1": GOOD}
    )
    assert isinstance(await coder.write(brief()), Draft)
    assert model.keys == ["code/1", "code/1/repair1", "code/2", "code/2/repair1"]


async def test_no_usable_reply_gives_up_with_its_reason() -> None:
    coder, _ = author({"code/1": "a", "code/1/repair1": "b", "code/1/repair2": "c"})
    written = await coder.write(brief())
    assert isinstance(written, GaveUp)
    assert re.search("code/1 .*2 repairs", written.reason)


async def test_an_exhausted_playbook_gives_up_naming_the_call() -> None:
    coder, _ = author({})
    assert await coder.write(brief(3)) == GaveUp(
        reason="the playbook holds no reply for idea-0003, stage code/1"
    )
    coder, _ = author({"code/1": NOT_FOUND})
    written = await coder.write(brief(3))
    assert isinstance(written, GaveUp)
    assert "idea-0003, stage code/2 (experiment.py: " in written.reason
    assert "\n" not in written.reason


async def test_endpoint_faults_are_raised() -> None:
    coder, _ = author({"code/1": EndpointError("down"), "debug/1": EndpointError("down")})
    with pytest.raises(EndpointError):
        await coder.write(brief())
    with pytest.raises(EndpointError):
        await coder.fix(failed())


async def test_a_fix_edits_the_failed_version_and_sees_where_it_failed() -> None:
    coder, model = author({"debug/2": fix(edit("RATE = 0.2", "RATE = 0.3"))})
    fixed = await coder.fix(failed(2, seen=(hash_texts(DOUBLED),)))
    assert fixed == Draft(
        files={**REFERENCE, "experiment.py": CODE.replace("0.1", "0.3")},
        note="RATE is too large.",
    )
    prompt = model.asked[0].messages[0].content
    for part in (
        "attempt 2 of at most 4",
        "`experiment.py`, line 9, in `<module>`",
        "`experiment.py`, line 6, in `main`:\n```python\nprint(RATE * STEPS)\n```",
        "exit code 1\nOverflowError: too large",
        "1. the first diagnosis",
        "RATE = 0.2",
    ):
        assert part in prompt


async def test_a_log_without_traceback_is_no_trouble() -> None:
    coder, model = author({"debug/1": fix(edit("RATE = 0.2", "RATE = 0.3"))})
    assert isinstance(await coder.fix(failed(log="")), Draft)
    assert "`experiment.py`, line " not in model.asked[0].messages[0].content


async def test_a_models_analysis_goes_before_the_edits() -> None:
    analysis = {"analysis": "main multiplies two constants.", "cause": "RATE, line 1."}
    replies = {"structure/2": analysis, "debug/2": fix(edit("RATE = 0.2", "RATE = 0.3"))}
    model = ScriptedModel(replies)
    assert isinstance(await ModelAuthor(model, toy_recipe()).fix(failed(2)), Draft)
    assert model.keys == ["structure/2", "debug/2"]
    assert "main multiplies two constants." in model.asked[1].messages[0].content


async def test_without_an_analysis_fixing_goes_on() -> None:
    replies: dict[str, Any] = {"debug/2": fix(edit("RATE = 0.2", "RATE = 0.3"))}
    model = ScriptedModel(replies)
    assert isinstance(await ModelAuthor(model, toy_recipe()).fix(failed(2)), Draft)
    assert model.keys == ["structure/2", "debug/2"]
    down = ScriptedModel({**replies, "structure/2": EndpointError("down")})
    with pytest.raises(EndpointError):
        await ModelAuthor(down, toy_recipe()).fix(failed(2))


async def test_giving_up_carries_the_diagnosis() -> None:
    coder, _ = author({"debug/1": fix(give_up=True, diagnosis="It cannot\nwork.")})
    assert await coder.fix(failed()) == GaveUp(reason="It cannot work.")
    coder, _ = author({"debug/1": fix(give_up=True, diagnosis="")})
    assert await coder.fix(failed()) == GaveUp(reason="the model gave no reason")


async def test_no_change_or_an_earlier_version_ends_it() -> None:
    coder, _ = author({"debug/1": fix()})
    assert await coder.fix(failed()) == GaveUp(reason=NO_CHANGE)
    half = {**REFERENCE, "experiment.py": CODE.replace("0.1", "0.5")}
    coder, _ = author({"debug/1": fix(edit("RATE = 0.2", "RATE = 0.5"))})
    assert await coder.fix(failed(seen=(hash_texts(half),))) == GaveUp(reason=REPEATS)


async def test_a_fix_that_falls_back_to_the_reference_is_none() -> None:
    coder, _ = author({"debug/1": fix(edit("RATE = 0.2", "RATE = 0.1"))})
    assert await coder.fix(failed()) == GaveUp(reason=GIVEN_BACK)


async def test_further_runs_are_fixed_under_keys_of_their_own() -> None:
    bad, good = fix(edit("RATE = 9", "")), fix(edit("RATE = 0.2", "RATE = 0.3"))
    coder, model = author({"debug/20003": bad, "debug/21003": good})
    assert isinstance(await coder.fix(failed(3).model_copy(update={"run": 2})), Draft)
    assert model.keys == ["debug/20003", "debug/21003"]


@pytest.mark.parametrize("bad", [edit("RATE = 9", ""), edit("RATE = 0.2", "RATE = (")])
async def test_a_rejected_fix_is_repaired_twice(bad: dict[str, Any]) -> None:
    good = fix(edit("RATE = 0.2", "RATE = 0.3"))
    coder, model = author({"debug/3": fix(bad), "debug/1003": good})
    assert isinstance(await coder.fix(failed(3)), Draft)
    assert model.keys == ["debug/3", "debug/1003"]

    others = {f"debug/{n}003": fix(edit(f"RATE = {n}0", "")) for n in (1, 2)}
    coder, model = author({"debug/3": fix(bad), **others})
    fixed = await coder.fix(failed(3))
    assert isinstance(fixed, GaveUp)
    assert "2 repairs: experiment.py:" in fixed.reason
    assert model.keys == ["debug/3", *others]


async def test_a_fix_without_reply_gives_up() -> None:
    coder, _ = author({})
    assert await coder.fix(failed(2)) == GaveUp(
        reason="the playbook holds no reply for idea-0001, stage debug/2"
    )
    coder, _ = author({"debug/1": "a", "debug/1/repair1": "b", "debug/1/repair2": "c"})
    fixed = await coder.fix(failed())
    assert isinstance(fixed, GaveUp)
    assert re.search("debug/1 .*2 repairs", fixed.reason)


async def test_every_idea_of_the_digits_playbook_becomes_code_that_compiles() -> None:
    recipe = load(shipped_folder() / "digits")
    assert recipe.playbook is not None
    model = PlaybookModel(recipe.playbook)
    coder = ModelAuthor(model, recipe)
    text = Proposal(title="t", hypothesis="h", method="m", experiment_plan="e", summary="s")
    for number in model.ideas():
        if number in (15, 16):
            continue  # set aside before any code is written
        one = idea(number).model_copy(update={"idea_id": idea_id_of(number), "proposal": text})
        written = await coder.write(Brief(idea=one))
        assert isinstance(written, Draft), (number, written)
        for name, source in written.files.items():
            compile(source, name, "exec")  # idea 8 lacks an import until it is fixed
        seen = [hash_texts(written.files)]
        for round_number in range(1, 6):
            task = FixTask(
                idea=one,
                files=written.files,
                outcome=IdeaFailed(failure=IdeaFailure.ERROR, detail="d"),
                log_tail="",
                round=round_number,
                rounds=5,
                seen=tuple(seen),
            )
            fixed = await coder.fix(task)
            if isinstance(fixed, GaveUp):
                assert "no usable" not in fixed.reason, (number, round_number, fixed.reason)
                assert fixed.reason != REPEATS, (number, round_number)
                break
            written = fixed
            seen.append(hash_texts(written.files))


LONG = {**REFERENCE, "notes.md": "Read me. " * 2000}


async def test_code_goes_without_files_that_it_may_not_edit() -> None:
    recipe = replace(toy_recipe(), reference=LONG)
    model = ScriptedModel({"code/1": GOOD})
    written = await ModelAuthor(model, recipe, SETTINGS, Window(8000)).write(brief())
    assert isinstance(written, Draft)
    assert written.files["notes.md"] == LONG["notes.md"]
    (asked,) = model.asked
    prompt = asked.messages[0].content
    assert "Read me." not in prompt
    assert "`notes.md` (read only)" in prompt
    assert CODE.rstrip() in prompt
    assert TokenEstimate().count(asked.messages) + asked.max_tokens <= 8000


async def test_rejected_edits_are_left_out_before_anything_else() -> None:
    model = ScriptedModel({"code/1": {**NOT_FOUND, "note": "n" * 20_000}, "code/2": GOOD})
    written = await ModelAuthor(model, toy_recipe(), SETTINGS, Window(8000)).write(brief())
    assert isinstance(written, Draft)
    prompt, shown, said = (message.content for message in model.asked[1].messages)
    assert shown == GONE
    assert "'RATE = 0.5'" in said
    assert "WIDTH = 8" in prompt


async def test_debugging_goes_without_the_logs_beginning() -> None:
    task = failed(2, log="".join(f"step {n} of many\n" for n in range(3000)) + LOG)
    model = ScriptedModel({"debug/2": fix(edit("RATE = 0.2", "RATE = 0.3"))})
    fixed = await ModelAuthor(model, toy_recipe(), SETTINGS, Window(8000), PLAIN).fix(task)
    assert isinstance(fixed, Draft)
    prompt = model.asked[0].messages[0].content
    assert "step 0 of" not in prompt
    assert "OverflowError: too large" in prompt
    assert "the first diagnosis" not in prompt
    assert "`experiment.py`, line 6, in `main`" in prompt
    assert "RATE = 0.2" in prompt


async def test_an_idea_that_no_context_holds_is_given_up_with_the_reason() -> None:
    model = ScriptedModel({"code/1": GOOD})
    settings = SETTINGS.model_copy(update={"context": 700})
    written = await ModelAuthor(model, toy_recipe(), settings).write(brief())
    assert isinstance(written, GaveUp)
    assert re.search(r"\bcontext\b.*\b700\b", written.reason)
    assert model.asked == []


async def test_the_schema_allows_edits_of_editable_files_alone() -> None:
    model = ScriptedModel({"code/1": {"note": "n", "edits": [edit("RATE = 0.1", "RATE = 0.2")]}})
    for form, field, values in (
        ("search", "file", list(toy_recipe().spec.editable)),
        ("unit", "unit", [unit.label for unit in units_of("experiment.py", CODE)]),
    ):
        authoring = AuthoringSettings.model_validate({"edits": form})
        author = ModelAuthor(model, toy_recipe(), authoring=authoring)
        assert isinstance(await author.write(brief()), Draft)
        request = model.asked.pop()
        assert request.reply_schema is not None
        edits = request.reply_schema["properties"]["edits"]
        assert edits["minItems"] == 1  # a first version that changes nothing is no answer
        assert edits["items"]["properties"][field]["enum"] == values
