"""The recorded writer's papers on the first command's campaign: offline, and past every wall.

HPCTEST_QUICKSTART is as for the quickstart's own tests; without it the campaign is run here.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from campaigns import hpcsci

from hpcscientist.config.settings import Settings
from hpcscientist.files.rundir import PaperPaths, RunPaths
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.models.role_client import Roles
from hpcscientist.papers.check import check
from hpcscientist.papers.figures.data import tables
from hpcscientist.papers.make import PaperOptions, Studio, open_studio
from hpcscientist.papers.writing.brief import subjects
from hpcscientist.papers.writing.drafts import FigureOffer
from hpcscientist.papers.writing.paper import PaperLayout, PaperWriters, open_writers
from hpcscientist.papers.writing.writer import WrittenManuscript
from hpcscientist.records.idea import CAMPAIGN_ID
from hpcscientist.records.manuscript import Defect, FigureRef, Manuscript, lines, walk, written
from hpcscientist.records.model_calls import ModelReply, ModelRequest

pytestmark = pytest.mark.e2e

# A paper whose writer is sent back, the campaign's, and one on an idea that did not work.
SENT_BACK = {"idea-0001": 1, CAMPAIGN_ID: 0, "idea-0002": 0}


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Studio:
    earlier = os.environ.get("HPCTEST_QUICKSTART")
    if earlier:
        folder = Path(earlier)
    else:
        folder = tmp_path_factory.mktemp("quickstart")
        done = hpcsci("launch", "--ideas", "16", "--run-dir", "run", cwd=folder)
        assert done.returncode == 0, done.stderr
    return open_studio(RunPaths(folder / "run"), PaperOptions(folder, Settings()))


class Silent:
    """A model that must not be asked."""

    name = "silent"

    async def probe(self) -> None: ...

    async def close(self) -> None: ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        raise AssertionError(f"{request.subject} asked {request.key} again")


KNOWN: dict[Manuscript, list[Defect]] = {}  # what walls found, for it takes seconds


def write(studio: Studio, roles: Roles, subject: str, folder: Path) -> WrittenManuscript:
    ideas = () if subject == CAMPAIGN_ID else (subject,)
    offers = tuple(
        FigureOffer(table.id, table.title, "What was measured.")
        for table in tables(studio.drawable, ideas)
    )
    desk = PaperWriters(studio.campaign, roles, PaperPaths(folder), Settings())
    layout = PaperLayout(studio.venue.sections, studio.venue.pages, offers)
    sheet, library = studio.records.sheet, studio.records.library
    assert library is not None

    def checked(manuscript: Manuscript) -> list[Defect]:
        if manuscript not in KNOWN:
            KNOWN[manuscript] = check(manuscript, sheet, library)
        return KNOWN[manuscript]

    return asyncio.run(desk.write(subject, layout, checked))


def whole(root: Path) -> dict[str, tuple[int, int]]:
    found = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {path.as_posix(): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


def test_papers_are_on_the_claims_and_on_the_campaign(studio: Studio) -> None:
    confirmed = ("idea-0001", "idea-0005", "idea-0008", "idea-0013")
    assert subjects(studio.records.sheet) == (*confirmed, CAMPAIGN_ID)


@pytest.mark.parametrize("subject", SENT_BACK)
def test_nothing_is_wrong_and_nothing_is_asked_twice(
    studio: Studio, subject: str, tmp_path: Path
) -> None:
    before = whole(studio.records.paths.root)
    roles = open_writers(studio.campaign, Settings())
    first = write(studio, roles, subject, tmp_path)
    assert first.defects == ()
    assert first.struck == ()
    assert first.sent_back == SENT_BACK[subject]
    silent = Roles(
        {"writing": Silent(), "review": Silent()}, {"writing": Window(), "review": Window()}
    )
    assert write(studio, silent, subject, tmp_path).manuscript == first.manuscript
    assert whole(studio.records.paths.root) == before, "the campaign was changed"
    manuscript = first.manuscript
    shown = {
        part.id
        for _, line in lines(manuscript)
        for part in walk(line)
        if isinstance(part, FigureRef)
    }
    assert shown == {figure.id for figure in manuscript.figures}
    for support in manuscript.supports:
        assert studio.records.library is not None
        paper = studio.records.library.paper(support.paper_id)
        assert paper is not None
        texts = (paper.abstract, *(section.text for section in paper.sections))
        assert any(support.quote in " ".join(text.split()) for text in texts)


class Boasting(Silent):
    """A model that claims all, types numbers, cites nobody and never fixes anything."""

    name = "boasting"
    texts = (
        "Our method significantly outperforms all baselines with 97.0% accuracy [@smith2020].",
        "We ran two networks, and idea-0001 reaches {idea-0001.test.accuracy.mean}, a new best.",
        "{no.such.fact} is the \\textbf{best}.",
    )

    async def complete(self, request: ModelRequest) -> ModelReply:
        replies: dict[str, object] = {
            "outline": {
                "title": "Our 3 great ideas",
                "contribution": "All.",
                "sections": [{"section": "results", "points": ["All."]}],
            },
            "related": {"query": "greatness", "done": False},
            "checklist": {"answers": [{"question": "plain", "met": False, "remark": "Boast."}]},
            "whole": {"remarks": [{"section": "results", "remark": "Boast more."}]},
        }
        reply = replies.get(request.stage, {"paragraphs": self.texts})
        return ModelReply(
            text=json.dumps(reply),
            model=self.name,
            prompt_tokens=1,
            completion_tokens=1,
            tokens_estimated=False,
            latency_s=0.0,
        )


def test_a_boasting_writer_s_paper_says_nothing_false(studio: Studio, tmp_path: Path) -> None:
    boasting = Boasting()
    roles = Roles(
        {"writing": boasting, "review": boasting}, {"writing": Window(), "review": Window()}
    )
    done = write(studio, roles, "idea-0001", tmp_path)
    assert done.defects == ()
    assert len(done.manuscript.sections) == len(studio.venue.sections)
    assert all(section.blocks for section in done.manuscript.sections)
    assert "results" in done.struck
    said = " ".join(written(line) for _, line in lines(done.manuscript))
    assert not any(word in said for word in ("outperforms", "97", "best", "smith"))
    assert "{campaign.ideas.failed}" in said
