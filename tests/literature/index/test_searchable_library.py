"""An open library: the port's obligations, what hits say, whose vectors, snippets."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from benchmarks.retrieval.files import write_openalex
from benchmarks.retrieval.labelled import labelled
from index_kit import ids, made, write_sources
from sentence_kit import model_folder

from hpcscientist.config.settings import EmbeddingSettings
from hpcscientist.errors import LibraryError
from hpcscientist.literature.index.keyword import snippet
from hpcscientist.literature.index.search import FLOOR, SearchableLibrary, open_library
from hpcscientist.literature.index.update import LibraryIndex
from hpcscientist.literature.library.build import build
from hpcscientist.literature.material import CONSTANT
from hpcscientist.models.embedding.keywords import KeywordEmbedder
from hpcscientist.models.embedding.sentences import open_embedder
from hpcscientist.ports import Library
from hpcscientist.records.literature import Paper, Section

MADE = labelled(1, 200)
QUERY = "classify images"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    write_openalex(MADE.papers, folder / "works.jsonl")
    made([folder / "works.jsonl", *write_sources(folder)], folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def library(folder: Path) -> SearchableLibrary:
    return open_library(folder)


@pytest.mark.parametrize("pattern", ["keyword-1/papers/*.term", "*/papers.npy", "index.json"])
@pytest.mark.parametrize("kind", ["pipe", "device", "itself"])
def test_what_is_no_regular_file_is_named_and_not_opened(
    pattern: str, kind: str, folder: Path, tmp_path: Path
) -> None:
    library = Path(shutil.copytree(folder, tmp_path / "library"))
    odd = next((library / "index").glob(pattern))
    odd.unlink()
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to("/dev/zero" if kind == "device" else odd.name)
    with pytest.raises(LibraryError, match=f"^{odd}: .*library build .* {library}`"):
        open_library(library)


def test_a_folder_that_a_build_removes_meanwhile_is_no_fault(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, scandir = Path(shutil.copytree(folder, tmp_path / "library")), os.scandir
    going = library / "index" / "going"
    going.mkdir()

    def removing(path: str) -> object:
        if str(path) == str(going):
            going.rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", removing)
    assert len(open_library(library)) == 201
    assert not going.exists()


def test_it_is_a_library(library: SearchableLibrary) -> None:
    port: Library = library
    assert len(port) == 201
    paper = port.paper(MADE.papers[0].paper_id)
    assert paper is not None
    assert (paper.title, paper.abstract) == (MADE.papers[0].title, MADE.papers[0].abstract)
    assert port.paper("openalex:W1") is None
    assert library.counts == {"papers": 201, "formulas": 3, "symbols": 4}


def test_hits_say_where_they_stand_in_each_search(library: SearchableLibrary) -> None:
    words = library.search(QUERY, 20, "keyword")
    near = library.search(QUERY, 20, "embedding")
    both = library.search(QUERY, 20, "both")
    assert [hit.why.keyword_rank for hit in words] == list(range(1, 21))
    assert all(hit.why.embedding_rank is None and hit.why.cosine is None for hit in words)
    assert [hit.why.embedding_rank for hit in near] == list(range(1, len(near) + 1))
    assert all(hit.why.keyword_rank is None and not hit.why.terms for hit in near)
    assert all(hit.score == hit.why.cosine and hit.score > FLOOR for hit in near)
    for alone, rank in ((words, "keyword_rank"), (near, "embedding_rank")):
        place = {hit.paper_id: getattr(hit.why, rank) for hit in alone}
        for hit in both:
            if hit.paper_id in place:
                assert getattr(hit.why, rank) == place[hit.paper_id]
    first = both[0].why
    assert first.keyword_rank is not None
    assert first.embedding_rank is not None
    assert both[0].score == pytest.approx(
        1 / (CONSTANT + first.keyword_rank) + 1 / (CONSTANT + first.embedding_rank)
    )
    for hits in (words, near, both):
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert len({hit.paper_id for hit in hits}) == len(hits)


@pytest.mark.parametrize("by", ["keyword", "embedding", "both"])
def test_fewer_hits_are_the_first_of_more(library: SearchableLibrary, by: str) -> None:
    assert ids(library, QUERY, 3, by) == ids(library, QUERY, 30, by)[:3]
    assert ids(library, QUERY, 0, by) == ids(library, QUERY, -1, by) == []
    assert len(ids(library, "networks", 10_000, by)) <= 201


def test_a_search_without_a_hit_returns_none(library: SearchableLibrary) -> None:
    for by in ("keyword", "embedding", "both"):
        assert ids(library, "xyzzy plugh", 10, by) == []
    assert library.formulas("xyzzy") == library.symbols("xyzzy") == ()


def test_any_thread_may_search(folder: Path, library: SearchableLibrary) -> None:
    queries = [topic.queries[0] for topic in MADE.topics]
    expected = [library.search(query, 10) for query in queries]
    fresh = open_library(folder)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: fresh.search(query, 10), queries * 3)) == expected * 3


def test_paraphrases_are_found_by_vectors_where_words_find_none(
    library: SearchableLibrary,
) -> None:
    topic = next(t for t in MADE.topics if t.task == "question answering")
    relevant = {paper for paper, task in MADE.tasks.items() if task == topic.task}
    found = ids(library, "reading comprehension", 20, "embedding")
    others = [
        p for p in found if not set(ids(library, "reading comprehension", 200, "keyword")) & {p}
    ]
    assert set(others) & relevant


def test_the_fingerprint_is_that_of_the_content(folder: Path, tmp_path: Path) -> None:
    write_openalex(MADE.papers[:50], tmp_path / "works.jsonl")
    small = made([tmp_path / "works.jsonl"], tmp_path / "out")
    assert open_library(folder).fingerprint == open_library(folder).fingerprint
    assert small.fingerprint != open_library(folder).fingerprint
    before = small.fingerprint
    write_openalex(MADE.papers[50:60], tmp_path / "more.jsonl")
    build([tmp_path / "works.jsonl", tmp_path / "more.jsonl"], tmp_path / "out", jobs=1)
    between = open_library(tmp_path / "out")
    assert between.unindexed == 10
    assert between.fingerprint != before


def test_an_embedder_of_another_kind_is_not_used(folder: Path, library: SearchableLibrary) -> None:
    other = open_library(folder, KeywordEmbedder())
    assert other.search(QUERY, 5) == library.search(QUERY, 5)


def test_a_model_that_is_gone_is_named_when_it_is_needed(folder: Path) -> None:
    library = open_library(folder)
    part = library._catalogue.vectors
    assert part is not None
    gone = part.model_copy(update={"latent": "", "model": "/gone/model", "name": "model"})
    library._catalogue = library._catalogue.model_copy(update={"vectors": gone})
    assert library.search(QUERY, 3, "keyword")
    with pytest.raises(LibraryError, match=r"/gone/model: .*no folder.*by keyword"):
        library.search(QUERY, 3)


PAPER = Paper(
    paper_id="x",
    title="T",
    abstract="First sentence about nothing. " * 20 + "Images are classified here. " + "End. " * 99,
    sections=(Section(heading="Method", text="A lemma of margins is shown. " * 3),),
    source="pdf",
    origin="x.pdf",
)


def test_a_snippet_is_where_the_words_are() -> None:
    found = snippet(PAPER, "classifying images")
    assert "Images are classified here." in found
    assert found.startswith("… ")
    assert found.endswith(" …")
    assert len(found) <= 204
    assert "lemma of margins" in snippet(PAPER, "margin lemma")
    assert snippet(PAPER, "unheard").startswith("First sentence")
    assert snippet(PAPER, "").startswith("First sentence")
    assert snippet(PAPER.model_copy(update={"abstract": "", "sections": ()}), "x") == ""
    chinese = PAPER.model_copy(update={"abstract": "本文研究" * 100 + "图像分类" + "方法" * 200})
    assert "图像分类" in snippet(chinese, "图像分类")


@pytest.mark.serving
def test_a_real_model_finds_what_no_word_says(tmp_path: Path) -> None:
    """all-MiniLM-L6-v2: a query that shares no word with what it should find."""
    settings = EmbeddingSettings(model=str(model_folder()))
    write_openalex(MADE.papers[:60], tmp_path / "works.jsonl")
    made([tmp_path / "works.jsonl"], tmp_path / "out", LibraryIndex(settings))
    library = open_library(tmp_path / "out")
    assert library.embedding.startswith("sentence-transformers")
    query = "captions for pictures"
    assert library.search(query, 5, "embedding")
    embedder = open_embedder(settings)
    assert open_library(tmp_path / "out", embedder)._opened() is embedder
    texts = [f"{paper.title}\n{paper.abstract}" for paper in MADE.papers[:60]]
    rows, vector = embedder.embed(texts), embedder.embed([query])[0]
    best = np.argsort(-(np.asarray(rows) @ np.asarray(vector)))[:5]
    assert ids(library, query, 5, "embedding") == [MADE.papers[n].paper_id for n in best]
    # Built again without naming the model, the library keeps it; unchanged, it is not opened.
    again = made([tmp_path / "works.jsonl"], tmp_path / "out")
    assert again.embedding == library.embedding
    assert ids(again, query, 5) == ids(library, query, 5)
