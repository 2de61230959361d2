from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from survey_kit import (
    CLOUDS,
    RANK,
    SCRIPT,
    TOPIC,
    ScriptedModel,
    Shelf,
    material,
    paper,
    rank_of,
    refused,
    surveyor,
)

from hpcscientist.config.settings import LiteratureSettings
from hpcscientist.errors import EndpointError, LibraryError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.literature.ranking import WordRanker
from hpcscientist.literature.survey import Surveyor
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.recipe.schema import Topic
from hpcscientist.records.idea import idea_seed
from hpcscientist.records.literature import Hit, SearchBy
from hpcscientist.records.model_calls import ModelRequest

OWN = ("Point cloud classification", "supervised", "one class for the cloud", "a cloud of points")


def ids(papers: Any) -> list[str]:
    return [p.paper_id.removeprefix("arxiv:") for p in papers]


async def test_what_is_on_another_task_is_dropped_with_the_reason() -> None:
    model = ScriptedModel(SCRIPT)
    survey = await surveyor(model, Shelf(CLOUDS)).survey(TOPIC)
    assert ids(survey.kept) == ["1", "3"]
    assert sorted(ids(survey.papers)) == ["1", "2", "3", "4", "5"]
    assert ids(survey.papers)[:2] == ["1", "3"]
    assert {p.paper_id: (p.topic, p.attributes) for p in survey.papers} == {
        "arxiv:1": (9, 9), "arxiv:2": (9, 3), "arxiv:3": (9, 9), "arxiv:4": (9, 3),
        "arxiv:5": (2, 3),
    }  # fmt: skip
    assert all(p.reason == "By what it returns." for p in survey.papers)
    assert survey.attributes.inputs == "a point cloud"
    assert survey.queries == ("point cloud", "tea")
    assert {p.paper_id: p.queries for p in survey.papers}["arxiv:5"] == ("tea",)
    assert (survey.library, survey.notes) == ("shelf", ())


async def test_every_request_is_of_the_survey_and_has_a_key_of_its_own() -> None:
    model = ScriptedModel(SCRIPT)
    survey = await surveyor(model, Shelf(CLOUDS)).survey(TOPIC)
    assert {request.subject for request in model.asked} == {"survey"}
    assert {request.seed for request in model.asked} == {idea_seed(7, 0)}
    ranks = sorted(rank_of(int(name)) for name in ids(survey.papers))
    assert model.keys()[:3] == ["attributes/1", "queries/1", "queries/2"]
    assert sorted(model.keys()[3:]) == ranks
    roles = {request.stage: request.role for request in model.asked}
    assert roles == {"attributes": "review", "queries": "ideation", "rank": "review"}


async def test_queries_are_widened_by_the_best_hits() -> None:
    def queries(request: ModelRequest) -> dict[str, Any]:
        return {"queries": ["shared layers" if request.ordinal == 1 else "partial completion"]}

    model, shelf = ScriptedModel({**SCRIPT, "queries": queries}), Shelf(CLOUDS)
    survey = await surveyor(model, shelf, LiteratureSettings(expansions=2)).survey(TOPIC)
    assert "PointNet" not in model.prompt("queries/1")
    widened = model.prompt("queries/2")
    assert "shared layers\n" in widened
    assert "PointNet\nPoint cloud classification with shared layers." in widened
    assert "Completer" not in widened
    assert "Completer" in model.prompt("queries/3")
    assert survey.queries == ("shared layers", "partial completion")
    assert ids(survey.kept) == ["1"]


@given(delays=st.lists(st.integers(0, 12), min_size=8, max_size=8))
@settings(max_examples=40)
def test_the_order_of_replies_does_not_matter(delays: list[int]) -> None:
    places = {rank_of(number): number for number in range(1, 6)}

    def order(key: str) -> int:
        return delays[places[key]] if key in places else 0

    async def made(model: ScriptedModel) -> Any:
        return await surveyor(model, Shelf(CLOUDS)).survey(TOPIC)

    assert asyncio.run(made(ScriptedModel(SCRIPT, order))) == asyncio.run(
        made(ScriptedModel(SCRIPT))
    )


async def test_papers_are_judged_side_by_side_and_not_all_at_once() -> None:
    many = [paper(n, f"Point cloud {n}") for n in range(1, 101)]
    model = ScriptedModel({**SCRIPT, "rank": RANK}, lambda _: 5)
    await surveyor(model, Shelf(many), LiteratureSettings(papers=100)).survey(TOPIC)
    assert len(model.asked) == 103
    assert model.most == 32


async def test_numbers_come_from_the_settings() -> None:
    shelf = Shelf([paper(n, f"Point cloud {n}", "a point " * n) for n in range(1, 101)])
    found = await surveyor(ScriptedModel({**SCRIPT, "rank": RANK}), shelf).survey(TOPIC)
    assert len(found.papers) == 50
    few = LiteratureSettings(papers=25, expansions=0, queries=1, abstract_words=2 * 97)
    model = ScriptedModel({**SCRIPT, "rank": RANK})
    found = await surveyor(model, shelf, few).survey(TOPIC)
    assert found.queries == ("point cloud",)
    assert sorted(model.keys()) == [
        "attributes/1",
        "queries/1",
        *sorted(rank_of(n) for n in (97, 98, 99, 100)),
    ]
    assert ids(found.papers) == ["97", "98", "99", "100"]
    strict = LiteratureSettings(threshold=10)
    found = await surveyor(ScriptedModel({**SCRIPT, "rank": RANK}), shelf, strict).survey(TOPIC)
    assert ids(found.kept) == ids(found.papers)[:25]  # all alike: as they were retrieved


async def test_short_abstracts_make_room_for_others() -> None:
    shelf = Shelf(
        [paper(n, "Point cloud", "too short" if n < 9 else "long " * 9) for n in range(12)]
    )
    few = LiteratureSettings(papers=3, abstract_words=9)
    found = await surveyor(ScriptedModel({**SCRIPT, "rank": RANK}), shelf, few).survey(TOPIC)
    assert ids(found.papers) == ["9", "10", "11"]


class Measured(Shelf):
    """A shelf that remembers how far it was read."""

    deepest = 0

    def search(self, query: str, limit: int = 10, by: SearchBy = "both") -> tuple[Hit, ...]:
        self.deepest = max(self.deepest, limit)
        return super().search(query, limit, by)


@pytest.mark.parametrize("papers", [1, 5, 50])
async def test_a_library_is_not_read_through_for_long_abstracts(papers: int) -> None:
    shelf = Measured([paper(n, f"Point cloud {n}", "too short") for n in range(400)])
    few = LiteratureSettings(papers=papers, abstract_words=9)
    found = await Surveyor(None, None, shelf, few).survey(TOPIC)
    assert found.papers == ()
    assert shelf.deepest == 4 * papers
    assert re.match(r"no paper .* 9 words .*; lower literature\.abstract_words", found.notes[0])


async def test_without_ranking_all_are_kept_as_retrieved() -> None:
    model = ScriptedModel(SCRIPT)
    survey = await surveyor(model, Shelf(CLOUDS), LiteratureSettings(ranking=False)).survey(TOPIC)
    assert model.keys() == ["attributes/1", "queries/1", "queries/2"]
    assert len(survey.kept) == 5
    assert {p.topic for p in survey.papers} == {None}
    assert survey.notes == ()


async def test_a_failed_judgement_is_no_evidence_against_a_paper() -> None:
    def rank(request: ModelRequest) -> Any:
        return "cannot say" if "CurveNet" in material(request) else SCRIPT["rank"](request)

    survey = await surveyor(ScriptedModel({**SCRIPT, "rank": rank}), Shelf(CLOUDS)).survey(TOPIC)
    assert ids(survey.kept) == ["1", "3"]
    unjudged = survey.kept[-1]
    assert (unjudged.topic, unjudged.attributes) == (None, None)
    assert " rank/" in unjudged.reason
    (note,) = survey.notes
    assert re.match("1 of 5 papers .*judged; .*kept, last", note)


@pytest.mark.parametrize(
    "bad",
    ["", "no", "{", '{"inputs": "", "outputs": ""}', '{"queries": []}', '{"topic": 11}', refused],
)
async def test_a_model_that_gives_nothing_usable_still_leaves_a_survey(bad: Any) -> None:
    model = ScriptedModel(dict.fromkeys(("attributes", "queries", "rank"), bad))
    survey = await surveyor(model, Shelf(CLOUDS)).survey(TOPIC)
    assert survey.attributes.inputs == TOPIC.inputs
    assert survey.attributes.other == TOPIC.attributes
    assert survey.queries[:4] == OWN
    assert len(survey.papers) == 4
    assert survey.kept == survey.papers[:2]
    expected = ("the task ", "the topic ", "titles ", "4 of 4 .*judged", "scores .* 2 of 4 .*kept")
    assert len(survey.notes) == len(expected)
    assert all(map(re.match, expected, survey.notes))


@pytest.mark.parametrize("queries", [["", "  ", "\x00"], ["Ünfindbar", "ünfindbar "]])
async def test_queries_that_find_nothing_give_way_to_the_topic(queries: list[str]) -> None:
    model = ScriptedModel({**SCRIPT, "queries": {"queries": queries}})
    survey = await surveyor(model, Shelf(CLOUDS)).survey(TOPIC)
    assert "Point cloud classification" in survey.queries
    assert ids(survey.kept) == ["1", "3"]


async def test_blank_attributes_are_those_of_the_recipe() -> None:
    blank = {"inputs": " \n", "outputs": "a class\nlabel", "other": ["", "x", "x", *"abcdefghijkl"]}
    model = ScriptedModel({**SCRIPT, "attributes": blank})
    survey = await surveyor(model, Shelf(CLOUDS)).survey(TOPIC)
    assert survey.attributes.inputs == TOPIC.inputs
    assert survey.attributes.outputs == "a class label"
    assert survey.attributes.other == ("x", *"abcdefghi")


async def test_a_recipe_that_says_nothing_of_its_task() -> None:
    silent = Topic(title="…", description="", inputs="", outputs=" ", attributes=("",))
    survey = await surveyor(ScriptedModel({}), Shelf(CLOUDS)).survey(silent)
    assert survey.attributes.inputs == "not stated"
    assert survey.papers == ()
    assert "hpcsci library build" in survey.notes[-1]


@pytest.mark.parametrize(
    ("library", "note"), [(None, "there .*no library"), (Shelf(), "the library .*no papers")]
)
async def test_without_papers_nobody_is_asked(library: Any, note: str) -> None:
    model = ScriptedModel(SCRIPT)
    survey = await surveyor(model, library).survey(TOPIC)
    assert (survey.papers, survey.queries, model.asked) == ((), (), [])
    assert survey.library == ("" if library is None else "shelf")
    assert re.match(note, survey.notes[0])
    assert "`hpcsci library build INPUT… --out DIR`" in survey.notes[0]


async def test_a_topic_without_hits_is_said_and_not_ranked() -> None:
    model = ScriptedModel({**SCRIPT, "queries": {"queries": ["quantum gravity"]}})
    survey = await surveyor(model, Shelf([CLOUDS[4]])).survey(TOPIC)
    assert survey.papers == ()
    assert re.match("no paper of .*`hpcsci library build ", survey.notes[0])
    assert model.keys() == ["attributes/1", "queries/1"]


class Remote(Shelf):
    """A library that holds nothing itself and asks elsewhere."""

    def __len__(self) -> int:
        return 0


async def test_a_library_that_asks_elsewhere_is_not_empty() -> None:
    survey = await surveyor(ScriptedModel(SCRIPT), Remote(CLOUDS)).survey(TOPIC)
    assert ids(survey.kept) == ["1", "3"]


async def test_an_endpoint_that_is_down_is_said_as_it_is() -> None:
    down = {**SCRIPT, "rank": lambda _: EndpointError("down")}
    for stage in ("attributes", "queries", "rank"):
        model = ScriptedModel({**SCRIPT, stage: down["rank"]})
        with pytest.raises(EndpointError, match="down"):
            await surveyor(model, Shelf(CLOUDS)).survey(TOPIC)
        assert model.under_way == 0


class Torn(Shelf):
    def search(self, query: str, limit: int = 10, by: Any = "both") -> tuple[Hit, ...]:
        raise LibraryError("papers.arrow: is damaged; build it again")


async def test_a_damaged_library_is_said_as_it_is() -> None:
    with pytest.raises(LibraryError, match="build it again"):
        await surveyor(ScriptedModel(SCRIPT), Torn(CLOUDS)).survey(TOPIC)


async def test_other_scripts_are_surveyed_too() -> None:
    shelf = Shelf(
        [paper(1, "点云分类网络", "对点云进行分类。"), paper(2, "Классификация облаков точек")]
    )
    topic = TOPIC.model_copy(update={"title": "点云分类"})
    queries = {"queries": ["点云", "облаков точек", "ИЗОБРАЖЕНИЯ"]}
    seen = {"queries": queries, "rank": lambda r: {**RANK, "topic": 8 + ("网络" in material(r))}}
    model = ScriptedModel({**SCRIPT, **seen})
    survey = await surveyor(model, shelf).survey(topic)
    assert sorted(ids(survey.papers)) == ["1", "2"]
    assert ids(survey.kept) == ["1"]
    assert survey.queries == ("点云", "облаков точек", "ИЗОБРАЖЕНИЯ", "点云分类网络") or (
        survey.queries[:3] == ("点云", "облаков точек", "ИЗОБРАЖЕНИЯ")
    )
    assert "点云分类网络\n对点云进行分类。" in model.prompt(rank_of(1))


async def test_a_ranker_without_a_model_takes_its_place() -> None:
    model = ScriptedModel(SCRIPT)
    survey = await surveyor(model, Shelf(CLOUDS), ranker=WordRanker()).survey(TOPIC)
    assert model.keys() == ["attributes/1", "queries/1", "queries/2"]
    assert "5" not in ids(survey.kept)


async def test_a_survey_without_any_model() -> None:
    made = Surveyor(None, None, Shelf(CLOUDS), LiteratureSettings())
    survey = await made.survey(TOPIC)
    assert survey.attributes.outputs == TOPIC.outputs
    assert survey.queries[:4] == OWN
    assert set(survey.queries[4:]) == {"CurveNet", "PointNet", "VoxelBoxes", "Completer"}
    assert all(1 <= (p.topic or 0) <= 10 and "attributes: " in p.reason for p in survey.papers)
    assert survey == await made.survey(TOPIC)


async def test_a_playbook_surveys(tmp_path: Path) -> None:
    first, second = (int(rank_of(number).partition("/")[2]) for number in (1, 2))
    lines = [
        {"idea": 0, "stage": "attributes", "reply": SCRIPT["attributes"]},
        {"idea": 0, "stage": "queries", "reply": {"queries": ["point cloud classification"]}},
        {"idea": 0, "stage": "rank", "ordinal": first, "reply": RANK},
        {"idea": 0, "stage": "rank", "ordinal": second, "text": "not sure"},
        {"idea": 0, "stage": "rank", "ordinal": second, "repair": 1, "reply": {**RANK, "topic": 7}},
        {"idea": 1, "stage": "propose", "text": "x"},
    ]
    book = tmp_path / "playbook.jsonl"
    book.write_text("".join(json.dumps(line) + "\n" for line in lines))
    survey = await surveyor(PlaybookModel(book), Shelf(CLOUDS)).survey(TOPIC)
    # Ranked by two lines; what the playbook does not judge is kept, last.
    assert [(p.topic, p.kept) for p in survey.papers] == [
        (9, True), (None, True), (None, True), (7, False),
    ]  # fmt: skip
    assert survey.notes[0].startswith("titles ")


async def test_a_survey_is_replayed_from_the_record(tmp_path: Path) -> None:
    inner, paths = ScriptedModel(SCRIPT), RunPaths(tmp_path)
    first = await surveyor(RecordedModel(inner, paths, lambda *_: None), Shelf(CLOUDS)).survey(
        TOPIC
    )
    silent = ScriptedModel({})
    again = await surveyor(RecordedModel(silent, paths, lambda *_: None), Shelf(CLOUDS)).survey(
        TOPIC
    )
    assert again == first
    assert silent.asked == []
    assert type(first).model_validate_json(first.model_dump_json()) == first


async def test_prompts_are_fitted_to_a_short_context() -> None:
    long = [paper(n, f"Point cloud {n}", "A sentence on a point cloud. " * 400) for n in range(9)]
    model = ScriptedModel({**SCRIPT, "rank": RANK})
    survey = await surveyor(model, Shelf(long), context=3000).survey(TOPIC)
    assert all(paper.topic == 9 for paper in survey.papers)
    widened, judged = model.prompt("queries/2"), model.prompt(rank_of(0))
    assert widened.count("A sentence") < 400
    assert 0 < judged.count("A sentence") < 200
    assert "[…]" in judged
