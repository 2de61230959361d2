"""`hpcsci library fetch`: what services find joins a library that lies on the disk."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from imitated_services import (
    Imitation,
    answer,
    arxiv,
    arxiv_entry,
    openalex,
    openalex_work,
    s2,
    s2_other,
    s2_paper,
)
from online_kit import VARIABLES, Bench

from hpcscientist.cli.main import run
from hpcscientist.errors import LibraryError
from hpcscientist.literature.index.search import open_library
from hpcscientist.literature.library.parts import read_contents
from hpcscientist.literature.library.paths import LibraryPaths
from hpcscientist.literature.online.fetch import fetch, keep
from hpcscientist.literature.sources.base import PaperSource, read
from hpcscientist.records.literature import Paper

BIBTEX = """@article{vaswani, title={Attention Is All You Need}, author={Vaswani, Ashish},
  year={2017}, eprint={1706.03762}, archivePrefix={arXiv}}
@article{own, title={Something that only this file knows of}, author={Doe, Jane}, year={2001}}
"""


@pytest.fixture(autouse=True)
def _imitated(server: Imitation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.setenv(variable, server.url)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("hpcscientist.literature.online.asking._PAUSE_S", 0.0)


def held(folder: Path) -> int:
    contents = read_contents(LibraryPaths(folder))
    assert contents is not None
    return contents.papers


def test_results_join_the_library(
    server: Imitation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refs = tmp_path / "refs.bib"
    refs.write_text(BIBTEX)
    library = tmp_path / "library"
    assert run(["library", "build", str(refs), "--out", str(library)]) == 0
    assert held(library) == 2
    capsys.readouterr()
    server.script = [answer(s2(s2_paper(), s2_other(1)))]
    words = ["library", "fetch", "--library", str(library), "--from", "semantic-scholar"]
    assert run([*words, "attention"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "arxiv:1706.03762  2017  Attention Is All You Need"
    assert re.search(r"\b3 papers, 1 .*; semantic-scholar found 2\b", err)
    assert held(library) == 3  # one of the two was there
    (hit,) = open_library(library).search("matter numbered", by="keyword")
    assert hit.paper_id == "doi:10.1000/s2.1"
    # Once more: nothing is asked, nothing changes.
    assert run([*words, "Attention"]) == 0
    assert "3 papers, 0 of" in capsys.readouterr().err
    assert len(server.asked) == 1
    # Nor does pruning take away what no input names.
    assert run(["library", "build", str(refs), "--out", str(library), "--prune"]) == 0
    assert held(library) == 3


def test_a_library_may_begin_with_it(server: Imitation, tmp_path: Path) -> None:
    library = tmp_path / "new"
    another = openalex_work("Another", id="https://openalex.org/W2", doi=None, locations=[])
    server.routes = {
        "/query": answer(arxiv(arxiv_entry())),
        "/works": answer(openalex(openalex_work(), another)),
    }
    for service in ("arxiv", "openalex"):
        assert run(["library", "fetch", "--library", str(library), "--from", service, "x"]) == 0
    assert held(library) == 2
    assert len(list((library / "fetched").iterdir())) == 2


def test_offline_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HPCSCI_OPENALEX_URL", "http://127.0.0.1:1")
    library = tmp_path / "library"
    words = ["library", "fetch", "--library", str(library), "--from", "openalex", "x"]
    assert run(words) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search("openalex .*reach: ", line)
    assert "internet" in line
    assert not library.exists()


def test_nothing_found_and_no_words_are_told(
    server: Imitation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = tmp_path / "library"
    for words, reason, code in (
        ("zzz", "finds nothing", 0),
        ("?!", "no words", 2),
        ("", "no words", 2),
    ):
        given = ["library", "fetch", "--library", str(library), "--from", "semantic-scholar"]
        assert run([*given, words]) == code
        assert reason in capsys.readouterr().err
    assert not library.exists()


@pytest.mark.parametrize("what", ["file", "other things"])
def test_a_folder_of_something_else_is_left_alone(
    server: Imitation, tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "place"
    if what == "file":
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "thesis.tex").write_text("mine")
    assert run(["library", "fetch", "--library", str(place), "--from", "openalex", "x"]) == 2
    assert str(place) in capsys.readouterr().err
    assert server.asked == []


def test_a_second_page_that_fails_leaves_the_first(server: Imitation, tmp_path: Path) -> None:
    server.script = [answer(s2(*map(s2_other, range(50)), total=90)), answer({}, 500)]
    notes: list[str] = []
    bench = Bench(tmp_path, server.url)
    papers = fetch(bench.asker("semantic_scholar"), "words", 90, notes.append)
    assert len(papers) == 50
    (note,) = notes
    assert re.fullmatch("semantic_scholar .* 50 papers, .*: HTTP 500", note)


def test_what_a_service_refuses_is_worded_anew(server: Imitation, tmp_path: Path) -> None:
    server.script = [answer({"error": "bad"}, 400)]
    with pytest.raises(LibraryError, match=r"^semantic_scholar refuses .*; word "):
        fetch(Bench(tmp_path, server.url).asker("semantic_scholar"), "x", 9, lambda _: None)


def test_a_query_has_one_file_that_never_shrinks(tmp_path: Path) -> None:
    papers = [_paper(n) for n in range(5)]
    first = keep(papers, tmp_path, "arxiv", "Größe & ../../etc/passwd" * 9)
    again = keep(papers[:2], tmp_path, "arxiv", "größe & ../../etc/passwd" * 9)
    assert first == again
    assert first.parent == tmp_path
    assert first.name.isascii()
    assert len(first.name) < 100
    assert list(read(PaperSource(first, "online", "o"))) == papers


@pytest.mark.parametrize(
    "line", ['{"paper_id": "x", "title": "", "source": "online", "origin": "y"}', "{}", "[", "7"]
)
def test_a_damaged_line_is_reported(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f"{_paper(1).model_dump_json()}\n{line}\n{_paper(2).model_dump_json()}\n")
    found = list(read(PaperSource(path, "online", "o")))
    assert [getattr(item, "paper_id", "trouble") for item in found] == ["x:1", "trouble", "x:2"]


def test_fetched_papers_are_what_they_are(
    server: Imitation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A terminal is safe from titles, and the library knows where a paper is from."""
    server.script = [answer(s2(s2_paper("Evil \x1b[2J title\nof two lines")))]
    library = tmp_path / "library"
    words = ["library", "fetch", "--library", str(library), "--from", "semantic-scholar", "x"]
    assert run(words) == 0
    assert "\x1b" not in capsys.readouterr().out
    (file,) = (library / "fetched").iterdir()
    record = json.loads(file.read_text())
    assert record["source"] == "online"
    assert record["origin"].startswith("semantic_scholar:")
    assert os.listdir(library / "fetched") == [file.name]  # noqa: PTH208 (nothing temporary)


def _paper(number: int) -> Paper:
    return Paper(paper_id=f"x:{number}", title=f"Number {number}", source="online", origin="o")
