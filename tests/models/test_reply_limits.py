"""A reply's schema, narrowed to what one question allows."""

from __future__ import annotations

from typing import Any

import pytest

from hpcscientist.campaign.stages import replies
from hpcscientist.models.reply_limits import Limit, narrowed
from hpcscientist.records.authoring import CodeReply
from hpcscientist.records.experiment import ReviewReply
from hpcscientist.records.literature import ProfileReply
from hpcscientist.records.proposing import ConvergeReply, NoveltyReply, ReflectReply


def items(schema: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = schema["properties"][name]["items"]
    return found


def test_a_file_is_one_of_the_editable_ones() -> None:
    before = CodeReply.model_json_schema()
    files = Limit(values=("a.py", "b.py"))
    schema = narrowed(before, {"edits.file": files, "edits": Limit(least=1, most=4, form="Edit")})
    edits = schema["properties"]["edits"]
    assert (edits["minItems"], edits["maxItems"]) == (1, 4)
    assert edits["items"]["properties"]["file"]["enum"] == ["a.py", "b.py"]
    assert before == CodeReply.model_json_schema()  # a cached schema is not changed


def test_of_two_forms_one_is_chosen_or_each_is_narrowed() -> None:
    names = {"edits.file": Limit(values=("a.py",)), "edits.unit": Limit(values=("a.py: main",))}
    both = items(narrowed(CodeReply.model_json_schema(), names), "edits")["anyOf"]
    assert both[0]["properties"]["file"]["enum"] == ["a.py"]
    assert both[1]["properties"]["unit"]["enum"] == ["a.py: main"]
    one = narrowed(CodeReply.model_json_schema(), {"edits": Limit(form="UnitEdit")})
    assert list(one["$defs"]) == ["UnitEdit"]
    assert items(one, "edits")["$ref"].endswith("/UnitEdit")
    with pytest.raises(KeyError):
        narrowed(one, {"edits.file": Limit(values=("a.py",))})


def test_ids_are_those_that_were_shown() -> None:
    schema = narrowed(
        NoveltyReply.model_json_schema(), {"evidence.paper_id": Limit(values=("p1", "p2"))}
    )
    assert items(schema, "evidence")["properties"]["paper_id"]["enum"] == ["p1", "p2"]


def test_where_nothing_was_shown_a_list_is_empty() -> None:
    papers = narrowed(ProfileReply.model_json_schema(), {"papers": Limit(values=(), most=0)})
    assert papers["properties"]["papers"]["maxItems"] == 0
    assert "enum" not in papers["properties"]["papers"]["items"]


def test_null_stays_allowed() -> None:
    schema = narrowed(ProfileReply.model_json_schema(), {"formula": Limit(values=("f1",))})
    forms = schema["properties"]["formula"]["anyOf"]
    assert {"type": "null"} in forms
    assert [form["enum"] for form in forms if form["type"] == "string"] == [["f1"]]


def test_fields_of_a_nullable_record_are_reached() -> None:
    schema = narrowed(
        ReflectReply.model_json_schema(), {"proposal.parent_ids": Limit(values=("idea-0001",))}
    )
    form = next(f for f in schema["properties"]["proposal"]["anyOf"] if f.get("type") != "null")
    assert form["properties"]["parent_ids"]["items"]["enum"] == ["idea-0001"]


def test_an_integer_has_a_range() -> None:
    limits = {"judgements": Limit(least=3, most=3), "judgements.direction": Limit(least=1, most=3)}
    schema = narrowed(ConvergeReply.model_json_schema(), limits)
    direction = items(schema, "judgements")["properties"]["direction"]
    assert (direction["minimum"], direction["maximum"]) == (1, 3)


def test_each_concept_has_one_check() -> None:
    limits = {"checks": Limit(least=2, most=2), "checks.concept": Limit(values=("x", "y"))}
    schema = narrowed(ReviewReply.model_json_schema(), limits)
    assert schema["properties"]["checks"]["maxItems"] == 2
    assert items(schema, "checks")["properties"]["concept"]["enum"] == ["x", "y"]


def test_a_field_that_is_none_is_an_error() -> None:
    with pytest.raises(KeyError):
        narrowed(replies()["plan"].model_json_schema(), {"part": Limit(most=1)})


def test_lengths_of_strings_are_left_to_the_check_of_the_reply() -> None:
    before = replies()["propose"].model_json_schema()
    assert {"minLength", "maxLength"} <= before["properties"]["title"].keys()
    title = narrowed(before, {})["properties"]["title"]
    assert not {"minLength", "maxLength"} & title.keys()
