"""A scripted model and a small recipe for the tests of this room."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpcscientist.errors import PlaybookExhausted
from hpcscientist.recipe.load import Recipe
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.authoring import Brief
from hpcscientist.records.experiment import ExperimentPlan
from hpcscientist.records.idea import Idea, KnobValue, Proposal, idea_id_of
from hpcscientist.records.model_calls import ModelReply, ModelRequest

CODE = "RATE = 0.1\nSTEPS = 10\n\n\ndef main():\n    print(RATE * STEPS)\n\n\nmain()\n"
REFERENCE = {"experiment.py": CODE, "helper.py": "WIDTH = 8  # units\n"}

SPEC = {
    "name": "toy",
    "topic": {"title": "T", "description": "D", "inputs": "I", "outputs": "O"},
    "metrics": [{"name": "score", "direction": "maximize"}],
    "budgets": {"pilot": {"seconds": 1}, "full": {"seconds": 2}},
    "editable": ["experiment.py"],
    "knobs": [
        {"name": "RATE", "type": "float", "low": 0.001, "high": 1.0},
        {"name": "STEPS", "type": "int", "low": 1, "high": 99},
        {"name": "WIDTH", "file": "helper.py", "type": "int", "low": 1, "high": 64},
    ],
}


def toy_recipe() -> Recipe:
    return Recipe(
        folder=Path("toy"),
        spec=RecipeSpec.model_validate_json(json.dumps(SPEC)),
        reference=dict(REFERENCE),
        seed_ideas=(),
        playbook=None,
    )


def idea(number: int = 1, knobs: dict[str, KnobValue] | None = None) -> Idea:
    return Idea(
        idea_id=idea_id_of(number),
        number=number,
        round=1,
        proposal=Proposal(
            title="Higher rate",
            hypothesis="It is too slow.",
            method="Double RATE.",
            experiment_plan="Set RATE.",
            summary="A higher rate.",
        ),
        model="scripted",
        seed=7,
        knobs=knobs,
    )


def brief(number: int = 1, knobs: dict[str, KnobValue] | None = None) -> Brief:
    return Brief(idea=idea(number, knobs))


PLAN = ExperimentPlan(
    data="All of it.", model="One number.", training="Ten steps.", testing="Print it.",
    comparison="Score against the reference.", parts=("a doubled rate", "ten steps"),
    ablations=("the doubled rate",), files=("experiment.py",), seconds=1.0, memory_mb=10.0,
)  # fmt: skip


def planned(number: int = 1) -> Brief:
    return Brief(idea=idea(number), plan=PLAN)


def edit(search: str | None, replace: str, file: str = "experiment.py") -> dict[str, Any]:
    return {"file": file, "search": search, "replace": replace}


@dataclass
class ScriptedModel:
    """Answers by key; keeps what it was asked."""

    replies: dict[str, Any]
    asked: list[ModelRequest] = field(default_factory=list)
    name: str = "scripted"

    async def probe(self) -> None:
        pass

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        if request.key not in self.replies:
            raise PlaybookExhausted(f"no reply for {request.key}")
        reply = self.replies[request.key]
        if isinstance(reply, Exception):
            raise reply
        return ModelReply(
            text=reply if isinstance(reply, str) else json.dumps(reply),
            model=self.name,
            prompt_tokens=1,
            completion_tokens=1,
            tokens_estimated=False,
            latency_s=0.0,
        )

    async def close(self) -> None:
        pass

    @property
    def keys(self) -> list[str]:
        return [request.key for request in self.asked]
