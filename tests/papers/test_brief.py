"""What a writer is told of an idea and of a campaign, from the files that ideas leave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from writing_kit import IDEA, SHEET

from hpcscientist.errors import RunDirectoryError, UsageError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.papers.writing.brief import brief_of, subjects
from hpcscientist.recipe.load import Recipe, load, shipped_folder
from hpcscientist.records.experiment import AnalysisReply
from hpcscientist.records.idea import Idea, Proposal
from hpcscientist.records.literature import ConceptRecord
from hpcscientist.records.proposing import Citation, NoveltyVerdict


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return load(shipped_folder() / "digits")


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path)
    for number, title in ((1, "Momentum"), (2, "Strong decay"), (3, "Elastic nets")):
        proposal = Proposal(
            title=title, hypothesis="It is slow.", method="A velocity.", experiment_plan="Run it.",
            summary=f"{title} in short.", risks="None known.", papers=("title:aa",),
        )  # fmt: skip
        idea = Idea(idea_id=f"idea-000{number}", number=number, round=1, proposal=proposal,
                    model="m", seed=1)  # fmt: skip
        folder = paths.idea(idea.idea_id)
        folder.root.mkdir(parents=True)
        folder.idea.write_text(idea.model_dump_json())
    return paths


def fields(paths: RunPaths, recipe: Recipe, subject: str) -> dict[str, str]:
    return dict(brief_of(paths, recipe, SHEET, subject).fields)


def test_papers_are_of_confirmed_improvements_and_the_campaign() -> None:
    assert subjects(SHEET) == (IDEA, "campaign")
    assert subjects(SHEET, ("idea-0002", "idea-0002")) == ("idea-0002",)
    assert subjects(SHEET, ("campaign",)) == ("campaign",)
    for wrong in ("idea-9999", "../x", "baseline"):
        with pytest.raises(UsageError, match=f"--idea {wrong}: "):
            subjects(SHEET, (wrong,))
    unconfirmed = [idea.model_copy(update={"confirmed": None}) for idea in SHEET.ideas]
    assert subjects(SHEET.model_copy(update={"ideas": tuple(unconfirmed)})) == ("campaign",)


def test_an_idea_is_told_by_what_its_files_have(paths: RunPaths, recipe: Recipe) -> None:
    folder = paths.idea(IDEA)
    reading = AnalysisReply(reading="It gains on every seed.")
    folder.reading(1).parent.mkdir()
    folder.reading(1).write_text(reading.model_dump_json())
    verdict = NoveltyVerdict(decision="novel", reason="so", rounds=1, library="l",
                             evidence=(Citation(paper_id="doi:10.1/x", why="near"),))  # fmt: skip
    folder.verdict("novelty").write_text(verdict.model_dump_json())
    concept = ConceptRecord(name="Velocity", definition="It adds up.", papers=("title:cc",))
    folder.concepts.write_text(json.dumps([concept.model_dump(mode="json")]))
    brief = brief_of(paths, recipe, SHEET, IDEA)
    told = dict(brief.fields)
    assert told["Method"] == "A velocity."
    assert told["What became of it"] == "an improvement on validation, confirmed on the test split"
    assert told["Reading 1 of its runs"] == reading.reading
    assert told["Concept: Velocity"] == "It adds up."
    assert brief.papers == ("title:aa", "doi:10.1/x", "title:cc")
    assert (brief.subject, brief.number, brief.scope.ideas) == (IDEA, 1, (IDEA,))
    assert recipe.spec.topic.title in brief.topic


@pytest.mark.parametrize(
    ("idea_id", "end"),
    [("idea-0002", "scored, decline against the reference"), ("idea-0003", "failed: timeout")],
)
def test_an_idea_that_did_not_work_is_told_as_well(
    paths: RunPaths, recipe: Recipe, idea_id: str, end: str
) -> None:
    assert fields(paths, recipe, idea_id)["What became of it"] == end


def test_the_campaign_is_told_idea_by_idea(paths: RunPaths, recipe: Recipe) -> None:
    told = fields(paths, recipe, "campaign")
    assert list(told) == ["baseline", IDEA, "idea-0002", "idea-0003"]
    assert told["idea-0002"].startswith("Strong decay: scored, decline")
    assert told["idea-0002"].endswith("Strong decay in short.")
    assert brief_of(paths, recipe, SHEET, "campaign").is_campaign


def test_an_idea_that_there_is_none_of_is_refused(paths: RunPaths, recipe: Recipe) -> None:
    with pytest.raises(UsageError, match="idea-0001"):
        brief_of(paths, recipe, SHEET, "idea-0099")


def test_a_damaged_file_is_named(paths: RunPaths, recipe: Recipe) -> None:
    paths.idea(IDEA).concepts.write_text("[{")
    with pytest.raises(RunDirectoryError, match=r"concepts\.json"):
        brief_of(paths, recipe, SHEET, IDEA)
