from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import ranking
from benchmarks.command_line import run
from benchmarks.ranking import (
    NAIVE,
    NAIVE_AS_MANY,
    TARGET,
    TASK,
    TOPIC,
    TOPIC_AS_MANY,
    Kept,
    Options,
    Surveyed,
    arms,
    figures,
)
from benchmarks.retrieval.labelled import labelled

from hpcscientist.bench.figure import as_json
from hpcscientist.errors import ModelSpecError
from hpcscientist.literature.ranking import ordinals


@pytest.mark.full
def test_ranking_by_attributes_lowers_the_share_of_wrong_tasks() -> None:
    said: list[str] = []
    found = {f.name: f for f in figures(Options(seeds=(10,)), said.append)}
    share = {name.removeprefix("wrong task, "): figure.value for name, figure in found.items()}
    assert share[TASK] < share[TOPIC] < share[NAIVE]
    # As many papers each: it is not only choosier.
    assert share[TASK] < share[NAIVE_AS_MANY]
    assert share[TASK] < share[TOPIC_AS_MANY]
    whole = found[f"wrong task, {TASK}"]
    assert whole.ratio == pytest.approx(share[TASK] / share[NAIVE])
    assert whole.is_met
    assert int(whole.unit.split()[1]) >= 100  # five of fifty a topic, at least
    assert found[f"wrong task, {NAIVE}"].unit == "of 1000 papers"
    assert said == ["building a library of 600 papers"]
    assert len(json.loads(as_json(list(found.values())))) == 5


def test_arms_count_what_each_keeps() -> None:
    survey = Surveyed("a", {"p1": 9, "p2": 3, "p3": None, "p4": 10}, ["p4", "p3"])
    tasks = {"p1": "b", "p2": "b", "p3": "a", "p4": "a"}
    assert arms([survey], tasks, 8) == {
        NAIVE: Kept(4, 2), TOPIC: Kept(3, 1), TASK: Kept(2, 0), NAIVE_AS_MANY: Kept(2, 2),
        TOPIC_AS_MANY: Kept(2, 1),
    }  # fmt: skip
    assert Kept().share == 0.0
    assert round(TARGET, 2) == 0.65


def answers(topic: int, attributes: int) -> dict[str, object]:
    return {"topic": topic, "attributes": attributes, "reason": "r"}


def test_a_model_judges_where_one_is_named(tmp_path: Path) -> None:
    options = Options(topics=1, size=200)
    papers = labelled(options.seeds[0], options.size)
    task, own = papers.topics[0].task, ordinals([paper.paper_id for paper in papers.papers])
    lines = [{"idea": 0, "stage": "attributes", "text": "?"}]
    lines += [
        {
            "idea": 0,
            "stage": "rank",
            "ordinal": ordinal,
            "reply": answers(9, 9 if papers.tasks[paper_id] == task else 2),
        }
        for paper_id, ordinal in own.items()
    ]
    book = tmp_path / "playbook.jsonl"
    book.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said: list[str] = []
    found = {f.name: f for f in figures(replace(options, model=f"playbook:{book}"), said.append)}
    assert found[f"wrong task, {TASK}"].value == 0  # it judges rightly
    assert found[f"wrong task, {TASK}"].unit != "of 0 papers"
    assert found[f"wrong task, {TOPIC}"].unit == "of 50 papers"
    assert said[-1].startswith("surveying ")


def test_the_command_prints_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ranking, "SEEDS", (10,))
    seen: list[Options] = []
    monkeypatch.setattr(ranking, "figures", lambda options, tell: seen.append(options) or [])
    assert run(["ranking", "--topics", "2", "--model", "playbook:x", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert (seen[0].topics, seen[0].model) == (2, "playbook:x")


@pytest.mark.parametrize("spec", ["search", "nothing", "playbook:/nowhere.jsonl"])
def test_a_spec_that_means_nothing(spec: str) -> None:
    with pytest.raises(ModelSpecError):
        figures(Options(model=spec, topics=1, size=20))
