"""What `hpcsci library build` says, and with which code it ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpcscientist.cli.library import BuildDisplay
from hpcscientist.cli.main import run
from hpcscientist.literature.library.indexing import BuildStep

BIB = "@article{a, title = {An article on the convergence of things}, author = {Gauss, Carl}}\n"
BUILD = ["library", "build"]


@pytest.fixture
def bib(tmp_path: Path) -> Path:
    path = tmp_path / "refs.bib"
    path.write_text(BIB)
    return path


def test_summary_goes_to_stdout_and_what_is_skipped_to_stderr(
    bib: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, out = tmp_path / "image.png", tmp_path / "library"
    image.write_bytes(b"\x89PNG\r\n\x1a\n")
    assert run([*BUILD, str(bib), str(image), "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"{out}: 1 papers, 0 symbols, 0 formulas (1 inputs read, 0 unchanged)\n"
    assert re.search(rf"^1 .* {out}/skipped\.jsonl:$", shown.err, re.M)
    assert "  1 x a PNG image" in shown.err
    assert run([*BUILD, str(bib), "--out", str(out), "--prune"]) == 0
    assert "(0 inputs read, 1 unchanged)" in capsys.readouterr().out


def test_nothing_that_can_be_read_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, empty, out = tmp_path / "image.png", tmp_path / "empty", str(tmp_path / "library")
    image.write_bytes(b"\x89PNG\r\n\x1a\n")
    empty.mkdir()
    assert run([*BUILD, str(image), "--out", out]) == 1
    assert re.search(rf"^hpcsci: nothing .* {image}$", capsys.readouterr().err, re.M)
    assert run([*BUILD, str(empty), "--out", out]) == 1
    told = capsys.readouterr().err
    assert re.search(r"^  1 x .*\bfolder\b.* PDF\b", told, re.M)
    assert re.search(rf"^hpcsci: nothing .* {empty}$", told, re.M)
    for kind in ([], ["--formulas"], ["--code"]):
        assert run(["library", "search", "words", "--library", out, *kind]) == 0
        assert re.search("no papers.*`hpcsci library build`", capsys.readouterr().err)


def test_wrong_use_is_one_line(
    bib: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing, out = tmp_path / "missing", tmp_path / "out"
    for arguments in (
        [*BUILD, str(missing), "--out", str(out)],
        [*BUILD, "--out", str(out)],
        [*BUILD, str(bib)],
        [*BUILD, str(bib), "--out", str(bib)],
        [*BUILD, str(bib), "--out", str(tmp_path)],
        [*BUILD, str(bib), "--out", str(bib / "below")],
        [*BUILD, str(bib), "--out", str(out), "--jobs", "0"],
    ):
        assert run(arguments) == 2, arguments
        assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()


def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with BuildDisplay() as progress:
        for done in range(1001):
            progress(BuildStep("reading", done, 1000, "bytes", documents=2 * done))
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("reading: 100 %, 2,000 documents, ")
    assert len(lines) < 100  # now and then, not for each
