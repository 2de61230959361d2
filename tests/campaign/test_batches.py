"""What a batch is told apart by: as it was when that began."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hpcscientist.campaign.proposals.proposal_context import Batches
from hpcscientist.config.extent import Extent
from hpcscientist.files.rundir import RunPaths
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.records.model_calls import Message, ModelReply, ModelRequest
from hpcscientist.records.proposing import BatchTask, Direction, ProposalTask

EXTENT = Extent(ideas=4, rounds=0, in_flight=4, lag=4, model_name="m", seed=1)


class Silent:
    name = "silent"

    async def complete(self, request: ModelRequest) -> ModelReply:
        return ModelReply(
            text="",
            model=self.name,
            prompt_tokens=1,
            completion_tokens=1,
            tokens_estimated=True,
            latency_s=0.0,
        )


class Finder:
    """Asks a model once; killed after that as often as it is told."""

    def __init__(self, model: RecordedModel, dies: bool) -> None:
        self._model, self._dies = model, dies
        self.asked: list[BatchTask] = []

    async def find(self, task: BatchTask) -> tuple[Direction | None, ...]:
        self.asked.append(task)
        message = Message(role="user", content=task.first.feedback)
        asked = ModelRequest(subject=task.first.idea_id, stage="directions", messages=(message,))
        await self._model.complete(asked)
        if self._dies:
            raise RuntimeError("killed")
        return tuple(Direction(title=f"d{n}", summary="s") for n in task.numbers)


def found(folder: Path, feedback: str, dies: bool = False) -> tuple[Finder, list[Any]]:
    """What a driver finds out that knows so much by now, and each idea's direction."""
    paths = RunPaths(folder)
    model: Any = RecordedModel(Silent(), paths, lambda *_: None)  # type: ignore[arg-type]
    finder: Any = Finder(model, dies)

    def task(idea_id: str, number: int) -> ProposalTask:
        return ProposalTask(
            idea_id=idea_id, number=number, round=1, feedback=feedback, archive=(), scores=()
        )

    async def ask() -> list[Any]:
        batches = Batches(EXTENT, finder, 2, paths, model)
        return [await batches.direction(number, 1, task) for number in (1, 2)]

    return finder, asyncio.run(ask()) if not dies else _dying(ask)


def _dying(ask: Any) -> list[Any]:
    with pytest.raises(RuntimeError, match="killed"):
        asyncio.run(ask())
    return []


def test_it_goes_on_with_what_it_began_with_and_stands_once_it_is_found(tmp_path: Path) -> None:
    killed, _ = found(tmp_path, "what was known then", dies=True)
    assert [task.first.feedback for task in killed.asked] == ["what was known then"]
    resumed, given = found(tmp_path, "what is known now")
    assert resumed.asked == killed.asked
    again, same = found(tmp_path, "what is known later")
    assert again.asked == []
    assert same == given
    assert [direction.title for direction, _ in given] == ["d1", "d2"]
    assert [others for _, others in given] == [("d2",), ("d1",)]
