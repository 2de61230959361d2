from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest
from authoring_kit import CODE, REFERENCE, ScriptedModel, edit, idea, toy_recipe
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.authoring import checks
from hpcscientist.authoring.edits.forms import Offer
from hpcscientist.authoring.revising import (
    GIVEN_BACK,
    ONLY_COMMENTS,
    REPEATS,
    UNCHANGED,
    EditQuestion,
    Reviser,
)
from hpcscientist.authoring.tracebacks.log import Frame
from hpcscientist.config.settings import CODE as SETTINGS
from hpcscientist.errors import EndpointError
from hpcscientist.files.hashing import hash_texts
from hpcscientist.models.prompting.fitting import Prompt, Window, fixed
from hpcscientist.records.authoring import Draft, FixReply, GaveUp
from hpcscientist.records.model_calls import Message

NOW = {**REFERENCE, "experiment.py": CODE.replace("0.1", "0.2")}
PROMPT = fixed((Message(role="user", content="Change it."),))
ASKED = EditQuestion(
    idea=idea(), stage="complete", ordinals=(4, 1004), prompt=lambda _: PROMPT, files=NOW, seen=()
)


def code(*edits: dict[str, Any]) -> dict[str, Any]:
    return {"note": "Done.", "edits": list(edits)}


def rate(value: str) -> dict[str, Any]:
    return edit("RATE = 0.2", f"RATE = {value}")


async def revise(
    replies: dict[str, Any], asked: EditQuestion = ASKED
) -> tuple[Draft | GaveUp, ScriptedModel]:
    model = ScriptedModel(replies)
    return await Reviser(model, toy_recipe(), SETTINGS, Window()).revise(asked), model


async def test_edits_apply_to_the_files_of_the_question() -> None:
    found, model = await revise({"complete/4": code(rate("0.3"))})
    assert found == Draft(
        files={**REFERENCE, "experiment.py": CODE.replace("0.1", "0.3")}, note="Done."
    )
    (asked,) = model.asked
    assert (asked.role, asked.key, asked.subject) == ("code", "complete/4", "idea-0001")
    assert asked.messages[0].content.startswith("Change it.")


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ((), UNCHANGED),
        ((rate("0.2"),), UNCHANGED),
        ((rate("0.3"), edit("RATE = 0.3", "RATE = 0.2")), UNCHANGED),
        ((rate("0.1"),), GIVEN_BACK),
        ((rate("0.5"),), REPEATS),
    ],
)
async def test_what_is_no_step_forward_ends_it(
    edits: tuple[dict[str, Any], ...], reason: str
) -> None:
    half = {**REFERENCE, "experiment.py": CODE.replace("0.1", "0.5")}
    asked = replace(ASKED, seen=(hash_texts(NOW), hash_texts(half)))
    found, model = await revise({"complete/4": code(*edits)}, asked)
    assert found == GaveUp(reason=reason)
    assert model.keys == ["complete/4"]


@pytest.mark.parametrize(
    "comments",
    [
        rate("0.2  # the rate"),
        edit("main():\n", 'main():\n    "Say so."\n'),
        edit("\n\n\ndef main", "\n\n\n\n# start\ndef main"),
        rate("(0.2)"),
    ],
)
async def test_comments_alone_go_back(comments: dict[str, Any]) -> None:
    found, model = await revise({"complete/4": code(comments), "complete/1004": code(rate("0.3"))})
    assert isinstance(found, Draft)
    assert ONLY_COMMENTS in model.asked[1].messages[2].content
    found, _ = await revise({"complete/4": code(comments), "complete/1004": code(comments)})
    assert found == GaveUp(reason=f"no usable edits after 1 repair: {ONLY_COMMENTS}")


async def test_where_it_insists_no_change_goes_back() -> None:
    insists = replace(ASKED, insist=True)
    replies = {"complete/4": code(), "complete/1004": code(rate("0.3"))}
    found, model = await revise(replies, insists)
    assert isinstance(found, Draft)
    assert UNCHANGED in model.asked[1].messages[2].content
    found, _ = await revise({"complete/4": code(), "complete/1004": code()}, insists)
    assert found == GaveUp(reason=f"no usable edits after 1 repair: {UNCHANGED}")


async def test_a_file_that_becomes_code_or_is_none_is_a_change() -> None:
    recipe = toy_recipe()
    spec = recipe.spec.model_copy(update={"editable": ("experiment.py", "*.txt")})
    model = ScriptedModel({"complete/4": code(edit(None, "# words\n", "notes.txt"))})
    reviser = Reviser(model, replace(recipe, spec=spec), SETTINGS, Window())
    found = await reviser.revise(ASKED)
    assert isinstance(found, Draft)
    assert found.files["notes.txt"] == "# words\n"

    broken = replace(ASKED, files={**NOW, "experiment.py": "def (:\n"})
    found, _ = await revise({"complete/4": code(edit(None, "X = 1\n"))}, broken)
    assert isinstance(found, Draft)


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        ("import torch\nRATE = 0.3", "torch"),
        ("RATE = RATES[0]", "RATES"),
        ("RATE = = 0.3", "syntax error"),
    ],
)
async def test_what_surely_fails_costs_no_trial(new: str, problem: str) -> None:
    bad = code(edit("RATE = 0.2", new))
    found, model = await revise({"complete/4": bad, "complete/1004": code(rate("0.3"))})
    assert isinstance(found, Draft)
    said = model.asked[1].messages[2].content
    assert "experiment.py:1: " in said
    assert problem in said


async def test_a_foreseen_failure_is_tried_where_nothing_better_comes() -> None:
    bad, worse = code(edit("RATE = 0.2", "import torch\nRATE = 0.3")), code(edit("nowhere", ""))
    for second in ({}, {"complete/1004": worse}, {"complete/1004": code(rate("= 0.3"))}):
        found, model = await revise({"complete/4": bad, **second})
        assert isinstance(found, Draft)
        assert "import torch" in found.files["experiment.py"]
        assert model.keys == ["complete/4", "complete/1004"]
    found, _ = await revise({"complete/4": code(rate("= 0.3"))})
    assert isinstance(found, GaveUp)  # what does not compile is never tried


FIVE = replace(ASKED, ordinals=(4, 1004, 2004, 3004, 4004))


async def test_each_reply_is_asked_warmer_and_with_another_seed() -> None:
    bad = {f"complete/{n * 1000 + 4}": code(rate(f"= 0.{n}")) for n in range(5)}
    found, model = await revise(bad, FIVE)
    assert isinstance(found, GaveUp)
    assert model.keys == ["complete/4", "complete/1004", "complete/2004"]
    warmth = [request.temperature for request in model.asked]
    assert warmth == pytest.approx([SETTINGS.temperature + n * 0.2 for n in range(3)])
    assert len({request.seed for request in model.asked}) == 3


async def test_a_reply_that_repeats_a_refused_one_is_no_try() -> None:
    bad, other = code(rate("= 0.3")), code(rate("= 0.4"))
    replies = {"complete/4": bad, "complete/1004": bad, "complete/2004": other}
    found, model = await revise({**replies, "complete/3004": code(rate("0.3"))}, FIVE)
    assert isinstance(found, Draft)
    assert model.keys == ["complete/4", "complete/1004", "complete/2004", "complete/3004"]
    always = {f"complete/{n * 1000 + 4}": bad for n in range(5)}
    found, model = await revise(always, FIVE)
    assert isinstance(found, GaveUp)
    assert len(model.asked) == 5


async def test_after_a_repeated_reply_edits_are_asked_in_the_other_form() -> None:
    recipe, bad = toy_recipe(), code(rate("= 0.3"))
    model = ScriptedModel({"complete/4": bad, "complete/1004": bad})
    shown: list[tuple[str, ...]] = []

    def prompt(offer: Offer) -> Prompt:
        shown.append(offer.forms)
        return PROMPT

    await Reviser(model, recipe, SETTINGS, Window()).revise(replace(FIVE, prompt=prompt))
    assert shown == [("unit",), ("search",)]
    schemas = [request.reply_schema or {} for request in model.asked]
    assert [list(schema["$defs"]) for schema in schemas] == [["UnitEdit"]] * 2 + [["Edit"]]


def unit(name: str, text: str) -> dict[str, Any]:
    return {"unit": f"experiment.py: {name}", "action": "replace", "code": text}


async def test_the_second_repair_shows_the_unit_at_fault_alone() -> None:
    """Beside it, what the other edits made stays."""
    wrong = unit("RATE", "RATE = RATES[0]")
    broken = code(unit("STEPS", "STEPS = 7"), unit("RATE", "RATE = ("))
    replies = {"complete/4": code(wrong), "complete/1004": broken}
    found, model = await revise({**replies, "complete/2004": code(unit("RATE", "RATE = 3"))}, FIVE)
    assert isinstance(found, Draft)
    assert "RATE = 3" in found.files["experiment.py"]
    assert "STEPS = 7" in found.files["experiment.py"]
    (message,) = model.asked[2].messages
    assert "RATE = (" in message.content
    assert "def main" not in message.content
    schema = model.asked[2].reply_schema
    assert schema is not None
    offered = schema["properties"]["edits"]["items"]["properties"]["unit"]["enum"]
    assert offered == [f"experiment.py: {name}" for name in ("RATE", "imports", "settings")]


async def by_parts(*replies: tuple[str, str]) -> tuple[Draft | GaveUp, ScriptedModel]:
    model = ScriptedModel(dict(replies))
    found = await Reviser(model, toy_recipe(), SETTINGS, Window(), form="parts").revise(FIVE)
    return found, model


def change(*parts: str) -> str:
    changes = [{"part": f"experiment.py: {part}", "change": "More."} for part in parts]
    return json.dumps({"note": "More.", "changes": changes})


async def test_parts_are_named_and_then_written_from_their_first_line_on() -> None:
    found, model = await by_parts(
        ("complete/4", change("RATE")), ("complete-part/4", " 0.3\n\nOTHER = 1\n```")
    )
    assert isinstance(found, Draft)
    assert found.files["experiment.py"] == NOW["experiment.py"].replace("0.2", "0.3")
    assert found.note == "More."
    named, written = model.asked
    changes = (named.reply_schema or {})["properties"]["changes"]["items"]
    offered = changes["properties"]["part"]["enum"]
    assert "experiment.py: RATE" in offered
    assert written.reply_schema is None
    assert written.begun == "```python\nRATE ="


async def test_a_part_that_cannot_be_used_is_asked_for_again_by_itself() -> None:
    found, model = await by_parts(
        ("complete/4", change("RATE")),
        ("complete-part/4", " RATES[0]\n```"),
        ("complete-part/1004", " 0.3\n```"),
    )
    assert isinstance(found, Draft)
    assert model.keys[:2] == ["complete/4", "complete-part/4"]
    assert model.keys[-1] == "complete-part/1004"
    assert "RATES" in model.asked[-1].messages[0].content


FAILED = replace(
    FIVE,
    reply_type=FixReply,
    failed=(Frame(file="experiment.py", line=6, function="main", code="print(RATE * STEPS)"),),
    failure="TypeError: can't multiply",
)


async def fixed_by_parts(
    asked: EditQuestion, *replies: tuple[str, str]
) -> tuple[Draft | GaveUp, ScriptedModel]:
    model = ScriptedModel(dict(replies))
    found = await Reviser(model, toy_recipe(), SETTINGS, Window(), form="parts").revise(asked)
    return found, model


def diagnosed(*parts: str) -> str:
    changes = [{"part": f"experiment.py: {part}", "change": "Less."} for part in parts]
    return json.dumps({"diagnosis": "Too many.", "changes": changes})


async def test_what_failed_is_fixed_where_it_failed_or_was_changed() -> None:
    found, model = await fixed_by_parts(
        FAILED, ("complete/4", diagnosed("RATE")), ("complete-part/4", " 0.3\n```")
    )
    assert isinstance(found, Draft)
    changes = (model.asked[0].reply_schema or {})["properties"]["changes"]["items"]
    # STEPS is the reference's, and no frame is in it.
    assert changes["properties"]["part"]["enum"] == ["experiment.py: RATE", "experiment.py: main"]
    assert "TypeError: can't multiply" in model.asked[1].messages[0].content
    _, model = await fixed_by_parts(replace(FAILED, failed=()), ("complete/4", diagnosed("RATE")))
    changes = (model.asked[0].reply_schema or {})["properties"]["changes"]["items"]
    assert "experiment.py: STEPS" in changes["properties"]["part"]["enum"]


async def test_a_changed_part_in_which_it_failed_is_written_anew_at_once() -> None:
    files = {**NOW, "experiment.py": NOW["experiment.py"].replace("RATE * STEPS", "RATE @ STEPS")}
    asked = replace(FAILED, files=files)
    found, model = await fixed_by_parts(asked, ("complete-part/4", "    print(RATE * 3)\n```"))
    assert isinstance(found, Draft)
    assert "print(RATE * 3)" in found.files["experiment.py"]
    (written,) = model.asked
    assert written.begun == "```python\ndef main():\n"
    assert "TypeError: can't multiply" in written.messages[0].content


@pytest.mark.parametrize("value", ["0.2", "0.1"])
async def test_a_part_that_changes_nothing_or_all_back_is_a_slip(value: str) -> None:
    found, model = await fixed_by_parts(
        FAILED,
        ("complete/4", diagnosed("RATE")),
        ("complete-part/4", f" {value}\n```"),
        ("complete/1004", diagnosed("RATE")),
        ("complete-part/1004", " 0.3\n```"),
    )
    assert isinstance(found, Draft)
    assert found.files["experiment.py"] == NOW["experiment.py"].replace("0.2", "0.3")
    assert "complete/1004" in model.keys


@pytest.mark.parametrize(("imports", "is_answer"), [("", True), ("import parts.other\n", False)])
async def test_a_file_that_another_program_may_run_is_not_said_to_be_idle(
    imports: str, is_answer: bool
) -> None:
    files = {"experiment.py": f"{imports}print(1)\n", "parts/other.py": "def f():\n    return 1\n"}
    new = {"unit": "parts/other.py: f", "code": "def f():\n    return 2"}
    recipe = toy_recipe()
    spec = recipe.spec.model_copy(update={"editable": tuple(files)})
    model = ScriptedModel({"complete/4": code(new)})
    reviser = Reviser(model, replace(recipe, spec=spec), SETTINGS, Window())
    found = await reviser.revise(replace(FIVE, files=files))
    assert isinstance(found, Draft) is is_answer


async def test_a_part_that_is_not_answered_ends_the_question() -> None:
    found, model = await by_parts(
        ("complete/4", change("RATE", "main")), ("complete-part/4", " 0.3\n```")
    )
    assert isinstance(found, GaveUp)
    assert "complete-part" not in model.keys[0]
    assert sorted(model.keys[1:]) == ["complete-part/4", "complete-part/4/draft1"]


async def test_what_a_part_uses_and_nobody_defines_is_asked_for() -> None:
    found, model = await by_parts(
        ("complete/4", change("RATE")),
        ("complete-part/4", " BASE * 3\n```"),
        ("complete-part/4/draft4", " 0.1\n```"),
    )
    assert isinstance(found, Draft)
    assert "BASE = 0.1\n" in found.files["experiment.py"]
    assert model.asked[2].begun == "```python\nBASE ="


async def test_code_that_nothing_calls_is_no_answer() -> None:
    idle = {"unit": "experiment.py: RATE", "action": "add", "code": "def helper():\n    return 3"}
    found, model = await revise({"complete/4": code(idle), "complete/1004": code(rate("0.3"))})
    assert isinstance(found, Draft)
    assert ": helper is" in model.asked[1].messages[-1].content


async def test_the_form_that_is_applied_more_often_is_offered() -> None:
    bad = {f"complete/{n * 1000 + 4}": code(rate(f"= 0.{n}")) for n in range(5)}
    model = ScriptedModel(bad)
    reviser = Reviser(model, toy_recipe(), SETTINGS, Window())
    await reviser.revise(FIVE)
    model.asked.clear()
    await reviser.revise(FIVE)
    assert list((model.asked[0].reply_schema or {})["$defs"]) == ["Edit"]


async def test_the_reference_with_other_comments_is_the_reference() -> None:
    found, _ = await revise({"complete/4": code(rate("0.1  # as before"))})
    assert found == GaveUp(reason=GIVEN_BACK)


async def test_giving_up_goes_before_edits() -> None:
    asked = replace(ASKED, reply_type=FixReply)
    reply = {"diagnosis": "No\nway.", "give_up": True, "edits": [rate("0.3")]}
    assert (await revise({"complete/4": reply}, asked))[0] == GaveUp(reason="No way.")


async def test_a_repair_that_is_not_answered_names_what_was_wrong() -> None:
    found, _ = await revise({"complete/4": code(edit("RATE = 7", "RATE = 8"))})
    assert isinstance(found, GaveUp)
    assert "idea-0001, stage complete/1004 (experiment.py: " in found.reason


async def test_endpoint_faults_are_raised() -> None:
    with pytest.raises(EndpointError):
        await revise({"complete/4": EndpointError("down")})


names = st.sampled_from(
    ["experiment.py", "helper.py", "../experiment.py", "/etc/passwd", "new.py", "", "a\nb", "./x"]
)
searches = st.none() | st.sampled_from(
    ["RATE = 0.2", "RATE", "main()", "", "STEPS = 10", "nowhere"]
)
texts = st.sampled_from(
    ["RATE = 0.1", "RATE = 0.2 # x", "", "(", "pass", "\ud800", "x = '\0'", CODE]
)
some_edits = st.lists(st.builds(edit, searches, texts, names), max_size=4)


@settings(max_examples=200)
@given(some_edits, some_edits, st.booleans())
def test_whatever_a_model_says_the_port_holds(
    first: list[dict[str, Any]], second: list[dict[str, Any]], insist: bool
) -> None:
    asked = replace(ASKED, insist=insist, seen=(hash_texts(NOW),))
    before = dict(NOW)
    replies = {"complete/4": code(*first), "complete/1004": code(*second)}
    found, model = asyncio.run(revise(replies, asked))
    assert before == NOW
    assert len(model.asked) <= 6
    if isinstance(found, GaveUp):
        assert found.reason
        assert "\n" not in found.reason
        return
    editable = toy_recipe().spec.editable
    for name in {*found.files, *NOW}:
        if found.files.get(name) != NOW.get(name):
            assert any(fnmatchcase(name, pattern) for pattern in editable)
    assert found.files not in (NOW, REFERENCE)
    assert all("syntax error" not in str(problem) for problem in checks.check(found.files))


async def drafted(replies: dict[str, Any], drafts: int = 3) -> tuple[Draft | GaveUp, ScriptedModel]:
    model = ScriptedModel(replies)
    reviser = Reviser(model, toy_recipe(), SETTINGS, Window(), drafts=lambda: drafts)
    return await reviser.revise(FIVE), model


async def test_of_several_drafts_the_first_that_can_be_used_is_taken() -> None:
    bad, good = code(rate("= 0.3")), code(rate("0.3"))
    found, model = await drafted({"complete/4": bad, "complete/4/draft1": good})
    assert isinstance(found, Draft)
    assert model.keys == ["complete/4", "complete/4/draft1", "complete/4/draft2"]
    assert len({request.seed for request in model.asked}) == 3
    assert len({request.temperature for request in model.asked}) == 3
    found, model = await drafted({"complete/4": good})
    assert isinstance(found, Draft)


async def test_where_no_draft_can_be_used_the_nearest_is_fixed_alone() -> None:
    """Code that compiles and will fail is nearer than code that does not compile."""
    broken, spare = code(rate("= 0.3")), code(edit("RATE = 0.2", "import torch\nRATE = 0.3"))
    replies = {"complete/4": broken, "complete/4/draft1": spare, "complete/1004": code(rate("3"))}
    found, model = await drafted(replies)
    assert isinstance(found, Draft)
    assert "RATE = 3" in found.files["experiment.py"]
    assert model.keys[3:] == ["complete/1004"]
    assert "torch" in model.asked[3].messages[2].content


async def test_drafts_that_nobody_answers_end_it_as_one_does() -> None:
    found, model = await drafted({})
    assert isinstance(found, GaveUp)
    assert "stage complete/4" in found.reason
    assert len(model.keys) == 3
