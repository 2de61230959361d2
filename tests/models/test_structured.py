from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from hpcscientist.errors import ReplyError
from hpcscientist.models.answers import find_objects, is_fixed, strip_reasoning
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.models.structured import Unusable, ask, parse, warmer
from hpcscientist.records.base import Record
from hpcscientist.records.idea import LONGEST_TITLE, Proposal
from hpcscientist.records.model_calls import Message, ModelReply, ModelRequest


class Edit(Record):
    file: str
    replace: str = ""


class Reply(Record):
    note: str
    edits: tuple[Edit, ...] = ()
    rating: int = Field(default=5, ge=1, le=10)


class Scripted:
    """A model that says one text after the other and remembers what it was asked."""

    name = "scripted"

    def __init__(self, *texts: str, reasoning: str = "", finish: str = "stop") -> None:
        self.texts, self.asked = list(texts), list[ModelRequest]()
        self.reasoning, self.finish = reasoning, finish

    async def probe(self) -> None:
        pass

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        return ModelReply(
            text=self.texts.pop(0),
            reasoning=self.reasoning,
            finish=self.finish,
            model=self.name,
            prompt_tokens=1,
            completion_tokens=1,
            tokens_estimated=True,
            latency_s=0.0,
        )

    async def close(self) -> None:
        pass


REQUEST = ModelRequest(
    subject="idea-0007",
    stage="code",
    ordinal=2,
    messages=(Message(role="user", content="Write it."),),
)
GOOD = '{"note": "n", "edits": [{"file": "a.py", "replace": "x = {1}"}]}'
WANTED = Reply(note="n", edits=(Edit(file="a.py", replace="x = {1}"),))


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"\n\n{GOOD}  ",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```\nHope this helps {{:)}}",
        f"Sure! With {{x}} and a set {{1, 2}} I get:\n{GOOD}\nDone.",
        f'<think>maybe {{"note": "no"}}?</think>{GOOD}',
        f'maybe {{"note": "no"}}?</think>\n{GOOD}',
        f'An example is {{"other": 1}}, mine is {GOOD}',
        f"{GOOD}\n{GOOD}",
        f"First {{ then {GOOD}",
    ],
)
def test_the_object_is_found(text: str) -> None:
    assert parse(text, Reply) == WANTED


def test_bare_line_breaks_in_strings_are_forgiven() -> None:
    assert parse('{"note": "a\nb\tc"}', Reply).note == "a\nb\tc"
    inner = '{"note": "a\nb", "edits": [{"file": "a.py"}]}'
    assert parse(inner, Reply) == Reply(note="a\nb", edits=(Edit(file="a.py"),))
    # A quotation mark in prose opens no string that runs on into the answer.
    assert parse(f'Set {{"note" or {{"edits: now\n{inner}', Reply).note == "a\nb"


def test_single_backslashes_in_strings_are_forgiven() -> None:
    assert parse(r'{"note": "\d+ \\d \n \alpha \u0041"}', Reply).note == "\\d+ \\d \n \\alpha A"


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("}]}", "},\n ]\n,\n}"),
        GOOD.replace('{1}"', '{1}", ').replace("}]", "},]"),
        f"Mine is {GOOD[:-1]},}}. Done, {{}}",
    ],
)
def test_commas_before_closing_brackets_are_forgiven(text: str) -> None:
    assert parse(text, Reply) == WANTED
    assert find_objects(text).mended
    assert is_fixed(text)
    assert find_objects(f"{GOOD} ,}}") == find_objects(GOOD)


def test_a_part_of_a_reply_is_not_the_reply() -> None:
    with pytest.raises(Unusable, match=r"edits: .*valid array"):
        parse('{"note": "n", "edits": {"note": "of one edit"}}', Reply)


DRAFT = '{"note": "draft", "edits": [{"file": "b.py"}]}'


@pytest.mark.parametrize(
    "text",
    [
        f"{DRAFT}\nSorry, corrected:\n{GOOD}",
        f"I could say {DRAFT}, but no. My answer is\n```json\n{GOOD}\n```",
    ],
)
def test_of_two_answers_the_last_counts(text: str) -> None:
    assert parse(text, Reply) == WANTED


@pytest.mark.parametrize(
    "text",
    [
        f"Sure. <think>{DRAFT}</think>{GOOD}",
        f"{GOOD}\nIs that right? <think>{DRAFT}</think>",
        f"{DRAFT} hm </think>\n{GOOD}",
        f"<think>one {DRAFT}</think> no, </think>{GOOD}",
        f"<thinking>{DRAFT}</thinking>\n<answer>{GOOD}</answer>",
        f"[THINK]{DRAFT}[/THINK]{GOOD}",
        f"<seed:think>{DRAFT}</seed:think>{GOOD}",
        f"<mm:think>{DRAFT}</mm:think>{GOOD}",
        f"<longcat_think>{DRAFT}</longcat_think>{GOOD}",
        f"◁think▷{DRAFT}◁/think▷{GOOD}",
        f"<|START_THINKING|>{DRAFT}<|END_THINKING|><|START_RESPONSE|>{GOOD}<|END_RESPONSE|>",
        f"<|begin_of_thought|>{DRAFT}<|end_of_thought|><|begin_of_solution|>{GOOD}",
        f"<|think:start|>{DRAFT}<|think:end|>{GOOD}",
        f"{DRAFT}<|think:end|>{GOOD}",
        f"<|inner_prefix|>{DRAFT}<|inner_suffix|>{GOOD}",
        f"<|open|>think<|sep|>{DRAFT}<|close|>think<|sep|><|open|>response<|sep|>{GOOD}",
        f"<|channel>thought\n{DRAFT}<channel|>{GOOD}",
        f"<|content_thinking|>{DRAFT}<|end_message|><|message_model|><|content_text|>{GOOD}",
        f"<unused94>thought\n{DRAFT}<unused95>{GOOD}",
        f"Here is my thought process: {DRAFT} Here is my response: {GOOD}",
        f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final"
        f"<|message|>{GOOD}<|return|>",
        f"<|channel|>analysis<|message|>{DRAFT}<|end|>{GOOD}",
        f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>commentary "
        f"to=functions.json <|constrain|>json<|message|>{GOOD}<|call|>",
        f"analysisWe need JSON. {DRAFT}assistantfinal{GOOD}",
    ],
)
def test_a_draft_is_not_taken_for_the_answer(text: str) -> None:
    assert parse(text, Reply) == WANTED
    with pytest.raises(Unusable, match="note: "):
        parse(text.replace(GOOD, '{"note": 1}'), Reply)


@pytest.mark.parametrize("mark", ["<think>", "</think>", "[THINK]", "<|channel|>final<|message|>"])
def test_a_mark_within_the_answer_is_part_of_it(mark: str) -> None:
    text = json.dumps({"note": f"cut at {mark}"})
    assert parse(text, Reply).note == f"cut at {mark}"
    assert parse(f"<think>{DRAFT}</think>{text}", Reply).note == f"cut at {mark}"


@pytest.mark.parametrize("reasoning", [GOOD, f"First {DRAFT}, no: {GOOD}", f"<think>\n{GOOD}"])
async def test_an_answer_in_the_reasoning_is_taken_where_there_is_no_other(reasoning: str) -> None:
    model = Scripted("", DRAFT, reasoning=reasoning)
    assert await ask(model, REQUEST, Reply) == WANTED
    # What was thought when it was cut off is a draft, and so is any thought beside an answer.
    model = Scripted("", DRAFT, reasoning=reasoning, finish="length")
    assert (await ask(model, REQUEST, Reply)).note == "draft"
    model = Scripted('{"note": 1}', DRAFT, reasoning=reasoning)
    assert (await ask(model, REQUEST, Reply)).note == "draft"


async def test_an_answer_within_a_thought_that_never_ends_is_taken() -> None:
    assert await ask(Scripted(f"<think>\n{GOOD}"), REQUEST, Reply) == WANTED
    assert await ask(Scripted(f"It puts {GOOD} before <think>."), REQUEST, Reply) == WANTED


async def test_a_draft_before_an_answer_that_was_cut_off_is_none() -> None:
    torn = '{"note": "better", "edits": [{"file": "a.py", "replace": "'
    model = Scripted(f"{DRAFT}\nNo: {torn}", GOOD, finish="length")
    assert await ask(model, REQUEST, Reply) == WANTED
    # Who says the same again and again has answered the first time.
    model = Scripted(f"{GOOD}\n{GOOD}\n{GOOD[:30]}", DRAFT, finish="length")
    assert await ask(model, REQUEST, Reply) == WANTED


def test_torn_objects_are_searched_in_time() -> None:
    rows = '{"a": "\n", "b": ' * 900
    for text in (rows + "[" + "1, " * 100_000, '{"a": "\n' * 50_000, '{"' * 100_000):
        with pytest.raises(Unusable):
            parse(text, Reply)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("<think>only this", "empty"),
        ("I cannot.", "no JSON"),
        ("[1, 2]", "no JSON"),
        ('{"note": "cut o', "cut off"),
        ('{"edits": [{"file": "a.py"}, {"fi', "cut off"),
        ('{"edits": []}', "note: Field required"),
        ('{"note": 3}', "note: .*valid string"),
        ('{"note": "n", "rating": 11}', r"rating: .*equal to 10\b"),
        ('{"note": "n", "edits": [{}]}', "edits.0.file: Field required"),
        ('{"note": "n", "extra": 1}', "extra: Extra inputs"),
        ('{"note": "\\ud83d"}', "Invalid JSON"),
        ('{"n":' * 100_000, "cut off"),
        ('{"rating": ' + "9" * 10_000 + "}", "cut off"),
        ('{"a":1,"b":1,"c":1,"d":1}', "2 more"),
        ('{"note": "n", "edits": [{"file": NaN}]}', r"edits\[0\]\.file: .*\bfinite\b"),
        ('{"note": "n", "rating": ' + "9" * 30 + "}", r"rating: .*at most\b"),
    ],
)
def test_what_is_wrong_is_one_line(text: str, said: str) -> None:
    with pytest.raises(Unusable) as caught:
        parse(text, Reply)
    assert re.search(said, str(caught.value))
    assert "\n" not in str(caught.value)


def test_the_problem_is_that_of_the_longest_object() -> None:
    with pytest.raises(Unusable, match="rating"):
        parse('{} then {"note": "n", "rating": 0} then {}', Reply)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=4)
prose = st.text(st.characters(exclude_characters="{}<>", exclude_categories=["Cs"]))


@given(json_objects, prose, prose, st.booleans(), st.booleans(), st.none() | st.integers(0, 4))
def test_any_object_is_recovered_from_what_surrounds_it(
    value: dict[str, Any],
    before: str,
    after: str,
    fenced: bool,
    ascii_only: bool,
    indent: int | None,
) -> None:
    source = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    wrapped = f"{before}\n```json\n{source}\n```\n{after}" if fenced else before + source + after
    assert find_objects(wrapped).values == [value]
    answer = strip_reasoning(f"<think>{{hm}} {before}</think>{wrapped}")
    assert find_objects(answer).values == [value]


@given(st.text())
def test_any_text_is_parsed_or_unusable(text: str) -> None:
    with pytest.raises(Unusable):
        parse(text + "{", Reply)


async def test_a_good_reply_needs_no_repair() -> None:
    model = Scripted(GOOD)
    assert await ask(model, REQUEST, Reply) == WANTED
    asked = model.asked[0]
    assert asked.key == "code/2"
    assert asked.schema_name == "Reply"
    assert asked.reply_schema == Reply.model_json_schema()
    content = asked.messages[0].content
    assert content.startswith("Write it.\n\n")
    assert json.dumps(Reply.model_json_schema()) in content


async def test_a_server_that_holds_schemas_is_not_shown_them() -> None:
    model = Scripted('{"note": "n"}')
    await ask(model, REQUEST, Reply, window=Window(holds_schemas=True))
    (asked,) = model.asked
    assert asked.reply_schema == Reply.model_json_schema()
    assert '"properties"' not in asked.messages[-1].content


async def test_each_repair_is_asked_warmer_and_with_another_seed() -> None:
    model = Scripted("no", "no", '{"note": "n"}')
    await ask(model, REQUEST.model_copy(update={"temperature": 0.2, "seed": 7}), Reply)
    assert [request.temperature for request in model.asked] == pytest.approx([0.2, 0.4, 0.6])
    assert model.asked[0].seed == 7
    assert len({request.seed for request in model.asked}) == 3
    assert warmer(1.5, 0.2) == 1.5
    assert warmer(0.9, 0.2) == 1.0


async def test_a_repair_shows_the_reply_and_its_problem() -> None:
    model = Scripted("prose", '{"note": 1}', GOOD)
    assert await ask(model, REQUEST, Reply) == WANTED
    assert [asked.key for asked in model.asked] == ["code/2", "code/2/repair1", "code/2/repair2"]
    last = model.asked[-1].messages
    assert [message.role for message in last] == ["user", "assistant", "user"]
    assert last[0] == model.asked[0].messages[0]
    assert last[1].content == '{"note": 1}'
    assert re.search("note: .*valid string", last[2].content)


async def test_repairs_are_bounded() -> None:
    model = Scripted("prose", "", "x" * 100_000, GOOD)
    with pytest.raises(ReplyError) as caught:
        await ask(model, REQUEST, Reply)
    told = str(caught.value)
    assert re.fullmatch("idea-0007: .*code/2 .*2 repairs: .*no JSON .*", told)
    assert model.asked[2].messages[1].content == "(empty)"
    with pytest.raises(ReplyError, match="after 0 repairs"):
        await ask(Scripted("prose"), REQUEST, Reply, repairs=0)
    with pytest.raises(ReplyError, match="after 1 repair:"):
        await ask(Scripted("prose", "prose"), REQUEST, Reply, repairs=1)


async def test_a_long_reply_is_shortened_for_repair() -> None:
    model = Scripted("a" + "x" * 100_000 + "z", GOOD)
    await ask(model, REQUEST, Reply)
    shown = model.asked[1].messages[1].content
    assert len(shown) < 17_000
    assert (shown[0], shown[-1]) == ("a", "z")


async def test_the_format_follows_messages_that_do_not_end_with_the_user() -> None:
    model = Scripted(GOOD)
    system = (Message(role="system", content="s"),)
    await ask(model, REQUEST.model_copy(update={"messages": system}), Reply)
    assert [message.role for message in model.asked[0].messages] == ["system", "user"]


def test_a_proposal() -> None:
    fields = dict.fromkeys(("title", "hypothesis", "method", "experiment_plan", "summary"), "x")
    text = json.dumps(fields | {"parent_ids": ["idea-0001"], "novelty": 7})
    assert parse(text, Proposal).parent_ids == ("idea-0001",)


async def test_a_bad_reply_without_a_repair_is_what_is_told(tmp_path: Path) -> None:
    book = tmp_path / "book.jsonl"
    book.write_text('{"idea": 1, "stage": "code", "reply": {"edits": []}}\n')
    asked = ModelRequest(
        subject="idea-0001", stage="code", messages=(Message(role="user", content="x"),)
    )
    with pytest.raises(ReplyError, match=r"code/1: note: Field required; .*repair: "):
        await ask(PlaybookModel(book), asked, Reply)


def test_a_title_is_one_plain_line_from_the_beginning() -> None:
    words = ("title", "hypothesis", "method", "experiment_plan", "summary")
    reply = dict.fromkeys(words, "x") | {"title": "  a\r\nb\x1b[31m\u202e c\u0085"}
    assert parse(json.dumps(reply), Proposal).title == "a b [31m c"
    with pytest.raises(Unusable, match="title: "):
        parse(json.dumps(reply | {"title": "\u202e\r"}), Proposal)
    long = parse(json.dumps(reply | {"title": "word " * 99}), Proposal).title
    assert long.startswith("word word ")
    assert len(long) == LONGEST_TITLE
