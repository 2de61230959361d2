from __future__ import annotations

import json

import pytest

from hpcscientist.records.asked.model import ROLES, Message, ModelRequest, Role


def request(stage: str, **more: Role) -> ModelRequest:
    return ModelRequest(
        idea_id="idea-0001", stage=stage, messages=(Message(role="user", content="x"),), **more
    )


@pytest.mark.parametrize(
    ("stage", "role"),
    [("propose", "ideation"), ("code", "code"), ("debug", "code"), ("judge", "review")],
)
def test_the_role_follows_from_the_stage(stage: str, role: Role) -> None:
    asked = request(stage)
    assert asked.role == role
    assert ModelRequest.model_validate_json(asked.model_dump_json()) == asked
    del (line := json.loads(asked.model_dump_json()))["role"]
    assert ModelRequest.model_validate_json(json.dumps(line)) == asked


@pytest.mark.parametrize("role", ROLES)
def test_a_given_role_stands(role: Role) -> None:
    assert request("propose", role=role).role == role
