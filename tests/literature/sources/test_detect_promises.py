"""Files that are not what their names promise, and folders with nothing in them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hpcscientist.literature.library.build import build
from hpcscientist.literature.sources import detect
from hpcscientist.literature.sources.base import PaperSource, Trouble

BIB = "@article{a, title={An article on promises}}\n"


def told(*folders: Path) -> dict[str, str]:
    return {
        Path(item.origin).name: item.reason.partition("; accepted")[0]
        for item in detect.inputs(folders)
        if isinstance(item, Trouble)
    }


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("paper.pdf", b"\x00\x01\x02" * 99, r"called \.pdf, .*binary data"),
        ("page.PDF", b"<!doctype html><html>", r"called \.pdf, .*web page"),
        ("none.pdf", b"", r"called \.pdf, .*empty file"),
        ("packed.pdf.gz", b"PK\x03\x04", r"called \.pdf, .*zip archive; unpack"),
        ("dump.jsonl", b'{"half": ', r"called \.jsonl, .*JSON .*not known"),
        ("dump.jsonl.gz", b"\x1f\x8b\x08\0broken", r"called \.jsonl, .*gzip data .*damaged"),
        ("2301.00001.gz", b"\x1f\x8b\x08\0broken", "called .*gzip data .*damaged"),
        ("dump.json", b"\x00\x01\x02" * 99, r"called \.json, .*binary data"),
        ("source.tar", b"\x00" * 1024, r"called \.tar, .*binary data"),
        ("main.tex", b"PK\x03\x04...", r"called \.tex, .*zip archive"),
    ],
)
def test_a_file_that_breaks_its_name_s_promise_is_named(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.bib").write_text(BIB)
    found = told(tmp_path)
    assert set(found) == {name}
    assert re.search(reason, found[name])


def test_other_files_are_counted(tmp_path: Path) -> None:
    for name in ("package.json", "notes.md", "table.csv.gz"):
        (tmp_path / name).write_text('{"name": "x"}')
    ((folder, reason),) = told(tmp_path).items()
    assert folder == tmp_path.name
    assert re.fullmatch(r"3 .* \(1 \.gz, 1 \.json, 1 \.md\)", reason)


def test_a_damaged_file_is_listed_with_the_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good.bib").write_text(BIB)
    (folder / "bad.pdf").write_bytes(b"\x00" * 2000)
    build([folder], tmp_path / "out")
    (line,) = (tmp_path / "out" / "skipped.jsonl").read_text().splitlines()
    skipped = json.loads(line)
    assert skipped.keys() == {"origin", "reason"}
    assert skipped["origin"] == str(folder / "bad.pdf")
    assert re.search(r"called \.pdf, .*binary data$", skipped["reason"])


def test_a_folder_with_nothing_in_it_is_named(tmp_path: Path) -> None:
    for name in ("empty", "hidden/.git", "nested/deep/deeper", "full"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "full" / "good.bib").write_text(BIB)
    empty = [tmp_path / name for name in ("empty", "nested")]
    found = told(*empty, tmp_path / "full")
    assert found.keys() == {"empty", "nested"}
    assert all("with nothing" in reason for reason in found.values())
    # Neither a part of a tree that is not empty, nor what was read before, is empty.
    assert told(tmp_path, tmp_path / "full", tmp_path) == {}
    assert [s.path.name for s in detect.inputs([tmp_path]) if isinstance(s, PaperSource)] == [
        "good.bib"
    ]
