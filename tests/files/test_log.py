from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.files import log

TEXTS = st.lists(st.text(max_size=20), max_size=8)


def written(texts: Sequence[str]) -> bytes:
    return b"".join(json.dumps(text).encode() + b"\n" for text in texts)


def read(data: bytes) -> list[tuple[str, int]]:
    return list(log.read(io.BytesIO(data), json.loads))


@settings(deadline=None)
@given(TEXTS, st.data())
def test_of_a_log_that_is_cut_anywhere_the_whole_lines_are_left(
    texts: list[str], data: st.DataObject
) -> None:
    whole = written(texts)
    cut = data.draw(st.integers(0, len(whole)))
    found = read(whole[:cut])
    assert [text for text, _ in found] == texts[: len(found)]
    assert [end for _, end in found] == [
        len(written(texts[:count])) for count in range(1, len(found) + 1)
    ]
    assert whole[:cut].count(b"\n") == len(found)


@settings(deadline=None)
@given(TEXTS.filter(bool), st.binary(max_size=20))
def test_what_a_power_cut_left_of_the_last_line_is_none(texts: list[str], left: bytes) -> None:
    torn = b"\x00" + left.replace(b"\n", b"\x00")
    for end in (b"", b"\n"):
        assert [text for text, _ in read(written(texts) + torn + end)] == texts


@settings(deadline=None)
@given(TEXTS, TEXTS.filter(bool))
def test_a_line_with_others_after_it_is_damaged(before: list[str], after: list[str]) -> None:
    with pytest.raises(log.DamagedLine) as error:
        read(written(before) + b"{\n" + written(after))
    assert error.value.number == len(before) + 1


def test_several_lines_may_be_torn_where_they_were_written_together() -> None:
    asked: list[Sequence[bytes]] = []

    def torn(lines: Sequence[bytes]) -> bool:
        asked.append(lines)
        return True

    found = list(log.read(io.BytesIO(b'"a"\n{\n"b"\n"c'), json.loads, torn))
    assert found == [("a", 4)]
    assert asked == [[b"{\n", b'"b"']]


def test_what_is_appended_follows_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        assert [log.append(descriptor, line) for line in (b"1\n", b"22\n", b"3\n")] == [0, 2, 5]
    finally:
        os.close(descriptor)
    assert path.read_bytes() == b"1\n22\n3\n"


def test_after_a_write_that_fails_midway_the_log_is_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"1\n")
    write, calls = os.write, []

    def full(descriptor: int, data: memoryview) -> int:
        calls.append(bytes(data))
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, data[:2])

    monkeypatch.setattr(os, "write", full)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        with pytest.raises(OSError, match="full"):
            log.append(descriptor, b"2345\n")
    finally:
        os.close(descriptor)
    assert calls == [b"2345\n", b"45\n"]
    assert path.read_bytes() == b"1\n"
