"""Surveys whose papers are ranked by what the model thought of each score, and their replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from survey_kit import TOPIC, Shelf, paper, surveyor

from hpcscientist.files.rundir import RunPaths
from hpcscientist.models.playbook import PlaybookModel, copy
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.records.base import NumberOdds
from hpcscientist.records.literature import Survey
from hpcscientist.records.model_calls import ModelReply, ModelRequest

TEXT = '{"topic": 8, "attributes": 10, "reason": "r"}'


class Thinks:
    """A model that says 8 and 10 of every paper and thinks more of some."""

    name = "thinks"

    async def probe(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def complete(self, request: ModelRequest) -> ModelReply:
        texts = {
            "attributes": '{"inputs": "i", "outputs": "o"}',
            "queries": '{"queries": ["point cloud"]}',
            "rank": TEXT,
        }
        about = request.messages[0].content.partition("## The paper")[2]
        nine = 0.9 if "surfaces" in about else 0.1
        odds = NumberOdds(at=TEXT.index("8"), values=((8, 1 - nine), (9, nine)))
        other = NumberOdds(at=TEXT.index("10"), values=((10, 1.0),))
        return ModelReply(
            text=texts[request.stage], model="thinks", prompt_tokens=1, completion_tokens=1,
            tokens_estimated=False, latency_s=0.0,
            odds=(odds, other) if request.scale == 10 else (),
        )  # fmt: skip


SHELF = Shelf(
    [paper(n, f"Point cloud {n}", "surfaces" if n in (4, 9) else "boxes") for n in range(1, 15)]
)


async def surveyed(model: Any) -> Survey:
    return await surveyor(model, SHELF).survey(TOPIC)


async def test_a_replayed_survey_keeps_the_same_papers(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "run")
    model = RecordedModel(Thinks(), run, lambda *_: None)
    first = await surveyed(model)
    assert [p.paper_id for p in first.kept] == ["arxiv:4", "arxiv:9"]
    assert first.kept[0].expected_topic == pytest.approx(8.9)
    assert [p.quantile for p in first.papers[:3]] == [1.0, 1.0, pytest.approx(12 / 14)]
    again = RecordedModel(PlaybookModel(run.root), RunPaths(tmp_path / "again"), lambda *_: None)
    copy(run.root, tmp_path / "playbook.jsonl")
    resumed = RecordedModel(Thinks(), run, lambda *_: None)
    for other in (again, resumed, PlaybookModel(tmp_path / "playbook.jsonl")):
        assert await surveyed(other) == first


async def test_recordings_without_probabilities_are_read_as_before(tmp_path: Path) -> None:
    lines = []
    run = RunPaths(tmp_path / "run")
    await surveyed(RecordedModel(Thinks(), run, lambda *_: None))
    chat = run.idea("survey").chat
    for line in chat.read_text().splitlines():
        call = json.loads(line)
        assert ("odds" in call) == (call["stage"] == "rank")
        call.pop("odds", None)
        lines.append(json.dumps(call))
    chat.write_text("\n".join(lines) + "\n")
    survey = await surveyed(PlaybookModel(run.root))
    assert {p.expected_topic for p in survey.papers} == {None}
    assert len(survey.kept) == 7  # all alike: half of them, as they were retrieved
