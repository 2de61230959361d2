"""Lines of any file: bounded memory, any encoding, damaged archives, and parts that add up."""

from __future__ import annotations

import gzip
import json
import os
import re
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.literature.sources.base import Trouble
from hpcscientist.literature.sources.lines import TextLine, decode, read_lines, read_text
from hpcscientist.literature.sources.records.jsonl import FoundRecord, read_records


def _texts(path: Path, start: int = 0, end: int | None = None, limit: int = 100) -> list[str]:
    found = read_lines(path, "x", start, end, limit)
    return [item.text for item in found if isinstance(item, TextLine)]


def _troubles(path: Path, limit: int = 100) -> list[Trouble]:
    return [item for item in read_lines(path, "x", limit=limit) if isinstance(item, Trouble)]


@given(
    st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=20),
    st.lists(st.integers(1, 500), max_size=5),
    st.booleans(),
)
def test_parts_hold_the_same_lines_as_the_whole(
    content: list[bytes], cuts: list[int], ends: bool
) -> None:
    data = b"a first line\n" + b"\n".join(content) + (b"\n" if ends else b"")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f")
        path.write_bytes(data)
        marks = [0, *sorted({c for c in cuts if c < len(data)})]
        bounds = [*marks[1:], None]
        for limit in (100, 20):
            parts = [_texts(path, s, e, limit) for s, e in zip(marks, bounds, strict=True)]
            assert [line for part in parts for line in part] == _texts(path, limit=limit)


@given(st.binary(max_size=300))
def test_no_bytes_crash_the_reader(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f")
        path.write_bytes(data)
        for item in read_lines(path, "x", limit=50):
            assert "\n" not in (item.text if isinstance(item, TextLine) else item.reason)
        assert "\0" not in read_text(path)[0]


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=200).filter(lambda t: "\0" not in t)
)
def test_utf8_is_read_as_it_is(text: str) -> None:
    assert decode(text.encode())[0] == text.removeprefix("\ufeff")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_encodings_and_byte_order_marks(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "f"
    lines = ['{"title": "Größen ਊ"}', '{"title": "ĊĀ and more of this line"}']
    path.write_bytes("\r\n".join(lines).encode(encoding))
    assert _texts(path) == lines
    assert [i.reason for i in _troubles(path)] == (
        [] if encoding == "utf-8-sig" else [f"read as {decode(path.read_bytes())[1][8:]}"]
    )


def test_mixed_encodings_are_told_once_a_kind(tmp_path: Path) -> None:
    path = tmp_path / "f"
    broken = "Größe".encode() + b" \xff"
    path.write_bytes(
        b"\n".join([b"plain", "Größe".encode("latin-1"), "Größe".encode(), broken, b"a\0b"])
    )
    assert _texts(path) == ["plain", "Größe", "Größe", "Größe \ufffd", "ab"]
    told = [t.reason for t in _troubles(path)]
    expected = (
        "NUL .* 1 line$",
        "broken UTF-8, .* 1 line$",
        "not UTF-8, .*Windows-1252 .* 1 line$",
    )
    assert len(told) == len(expected)
    assert all(map(re.match, expected, told))


def test_a_long_line_is_passed_over_and_told(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\n" + b"x" * 101 + b"\ntwo\n" + b"y" * 100 + b"\n" + b"z" * 500)
    assert _texts(path) == ["one", "two", "y" * 100]
    assert [t.origin for t in _troubles(path)] == ["x: byte 4", "x: byte 211"]


@pytest.mark.full
def test_a_line_of_two_gigabytes_is_never_held(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    with path.open("wb") as file:
        file.write(b'{"id": "1"}\n')
        file.seek(2 * 2**30)  # a hole: it takes no room on the disk
        file.write(b'\n{"id": "2"}\n')
    tracemalloc.start()
    found = list(read_records(path, "dump.jsonl"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [f.value for f in found if isinstance(f, FoundRecord)] == [{"id": "1"}, {"id": "2"}]
    (told,) = (t.reason for t in found if isinstance(t, Trouble))
    assert re.match(".* 16 MiB, passed over; write ", told)
    assert peak < 64 * 2**20


def test_a_part_that_begins_inside_a_long_line_ends_where_it_should(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\n" + b"x" * 1000 + b"\ntwo\n")
    assert _texts(path, 100, 500) == []
    assert _texts(path, 500) == ["two"]
    assert _texts(path, 1004, 1005) == []
    assert _texts(path, 1005, 1006) == ["two"]


@pytest.mark.parametrize("cut", [1, 5, 30, 2000])
def test_a_truncated_archive_gives_what_it_has(tmp_path: Path, cut: int) -> None:
    lines = [f"{n} {os.urandom(20).hex()}" for n in range(2000)]
    whole = gzip.compress("\n".join(lines).encode())
    path = tmp_path / "f.gz"
    path.write_bytes(whole[:-cut])
    kept = _texts(path)
    assert kept == lines[: len(kept)]
    assert len(kept) > 1700
    assert re.match("gzip .*damaged", _troubles(path)[0].reason)
    assert re.match("gzip .*damaged", read_text(path)[1])


def test_damage_in_the_middle_of_an_archive(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(b"".join(b"%d\n" % n for n in range(40_000)), 9))
    data[len(data) // 2 : len(data) // 2 + 200] = b"\xff" * 200
    path = tmp_path / "f.gz"
    path.write_bytes(data)
    kept = _texts(path)
    assert kept[:1000] == [str(n) for n in range(1000)]
    assert any("damaged" in t.reason for t in _troubles(path))


def test_lines_that_are_no_json_are_told_twenty_times(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    deep = "[" * 100_000
    path.write_text(
        "\n".join(['{"a": 1}', deep, "7", *["{broken"] * 50, '{"b": "\\ud800"}', "", '{"c": 2}'])
    )
    found = list(read_records(path, "f"))
    assert [list(f.value) for f in found if isinstance(f, FoundRecord)] == [["a"], ["b"], ["c"]]
    reasons = [t.reason for t in found if isinstance(t, Trouble)]
    assert len(reasons) == 22
    assert re.match("not .*JSON, .*: 31 more ", reasons[-1])


def test_an_answer_of_an_api_works_in_one_line_or_many(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    for value in ({"total": 2, "data": [{"id": 1}, {"id": 2}]}, [{"id": 1}, {"id": 2}]):
        for indent in (None, 2):
            path.write_text(json.dumps(value, indent=indent))
            found = list(read_records(path, "f"))
            assert [f.value for f in found if isinstance(f, FoundRecord)] == [{"id": 1}, {"id": 2}]


def test_a_file_too_large_to_be_a_document_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100)
    assert read_text(path, 100) == ("x" * 100, "")
    with pytest.raises(OSError, match="split it"):
        read_text(path, 99)
