from __future__ import annotations

from hpcscientist.records.model_calls import Message, ModelRequest


def test_a_request_is_read_as_it_was_written() -> None:
    asked = ModelRequest(
        subject="idea-0001",
        stage="propose",
        role="ideation",
        messages=(Message(role="user", content="x"),),
    )
    assert asked.key == "propose/1"
    assert ModelRequest.model_validate_json(asked.model_dump_json()) == asked
