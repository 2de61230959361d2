"""`hpcsci library search`: what people and programs are shown, and every way of finding nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmarks.retrieval.files import write_openalex
from benchmarks.retrieval.labelled import labelled

from hpcscientist.cli.main import run

CODE = (
    'def cross_entropy(x):\n    """Loss of a classifier."""\n'
    + "    x += 1\n" * 9
    + "    return x\n"
)
LATEX = r"""\documentclass{article}\title{Bounds of margins}\begin{document}
\section{Loss}The hinge loss asks for a margin.
\begin{equation} H = \max(0, 1 - y f(x)) \end{equation}\end{document}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("searched")
    write_openalex(labelled(0, 80).papers, folder / "works.jsonl")
    (folder / "repo").mkdir()
    (folder / "repo" / "setup.py").write_text("")
    (folder / "repo" / "loss.py").write_text(CODE)
    (folder / "paper.tex").write_text(LATEX)
    inputs = [str(folder / name) for name in ("works.jsonl", "repo", "paper.tex")]
    assert run(["library", "build", *inputs, "--out", str(folder / "out"), "--jobs", "1"]) == 0
    return folder / "out"


def search(folder: Path, *arguments: str) -> int:
    return run(["library", "search", "--library", str(folder), *arguments])


def test_people_see_what_was_found_where_and_why(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(folder, "image", "classification", "--limit", "2") == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("  1. ")
    assert lines[0].endswith(")")
    assert "openalex:W" in lines[1]
    assert "works.jsonl" in lines[1]
    assert "classification (title)" in lines[2]
    assert "rank 1 by keyword; cosine" in lines[2]
    assert "by embedding" in lines[2]
    assert lines[3].strip()
    assert err == ""


def test_programs_get_everything(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search(folder, "image classification", "--json", "--limit", "3") == 0
    hits = json.loads(capsys.readouterr().out)
    assert len(hits) == 3
    for hit in hits:
        assert set(hit) == {
            *("paper_id", "title", "abstract", "year", "origin", "score", "why", "snippet")
        }
        assert hit["why"]["keyword_score"] == pytest.approx(
            sum(term["weight"] for term in hit["why"]["terms"])
        )


def test_code_and_formulas(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search(folder, "--code", "entropy loss") == 0
    out = capsys.readouterr().out
    assert "function cross_entropy" in out
    assert "repo/loss.py:1-12" in out
    assert "… 6 more lines" in out
    assert search(folder, "--formulas", "hinge margin", "--json") == 0
    (hit,) = json.loads(capsys.readouterr().out)
    assert hit["formula"]["text"].startswith("H =")
    assert search(folder, "--formulas", "hinge") == 0
    assert "in: Bounds of margins, Loss" in capsys.readouterr().out


@pytest.mark.parametrize("kind", [(), ("--code",), ("--formulas",), ("--by", "keyword")])
def test_nothing_found_is_no_failure(
    folder: Path, kind: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for query in ("xyzzy", "", "😀", '" title:( ^~', "\x1b[31m", "x" * 10_000):
        assert search(folder, query, *kind) == 0
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("hpcsci: no ")
        assert "fewer" in err
        assert err.count("\n") == 1
        assert search(folder, query, *kind, "--json") == 0
        assert json.loads(capsys.readouterr().out) == []


def test_a_way_on_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search(folder, "clasification imges", "--by", "keyword") == 0
    err = capsys.readouterr().err
    assert "classification" in err
    assert "image" in err
    assert "--by embedding" in err


def test_an_empty_library_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "setup.py").write_text("")
    (tmp_path / "repo" / "loss.py").write_text(CODE)
    assert run(["library", "build", str(tmp_path / "repo"), "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert search(tmp_path / "out", "anything") == 0
    assert re.search("no papers.*`hpcsci library build`", capsys.readouterr().err)


def test_wrong_use(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["--library", str(tmp_path / "none"), "x"], "none: no such"),
        (["--library", str(tmp_path), "x"], "no library"),
        (["--library", str(folder), "--code", "--formulas", "x"], "not both"),
        (["--library", str(folder), "--code", "--by", "both", "x"], "--by is for papers"),
        (["--library", str(folder), "--limit", "0", "x"], "--limit"),
        (["--library", str(folder)], "WORDS"),
        (["x"], "give --library DIR"),
    ):
        assert run(["library", "search", *arguments]) == 2, arguments
        out, err = capsys.readouterr()
        assert out == ""
        assert said in err
        assert err.count("\n") == 1


def test_the_configured_library_is_searched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HPCSCI_LITERATURE_LIBRARY", str(folder))
    assert run(["library", "search", "translation", "--limit", "1"]) == 0
    assert capsys.readouterr().out


def test_a_model_that_is_no_folder_is_refused_before_building(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_openalex(labelled(0, 3).papers, tmp_path / "works.jsonl")
    arguments = ["library", "build", str(tmp_path / "works.jsonl"), "--out", str(tmp_path / "out")]
    assert run([*arguments, "--embedding-model", str(tmp_path / "none")]) == 2
    assert re.search(r"/none: .*--embedding-model", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()
