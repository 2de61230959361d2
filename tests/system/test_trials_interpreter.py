"""A Python is asked what it compiles; where it cannot be asked, any may be meant."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from newer_python import BROKEN, NEWER, python

from hpcscientist.files.python_source import fault
from hpcscientist.system import interpreter
from hpcscientist.system.interpreter import Interpreter

SOURCES = {"good.py": "x = 1", "newer.py": NEWER[0], "broken.py": BROKEN[0]}
OLD = sys.version_info < (3, 12)


def test_this_python_answers_for_itself() -> None:
    here = Interpreter((sys.executable,))
    assert here.version == sys.version_info[:2]
    assert list(here.faults(SOURCES)) == (["newer.py"] if OLD else []) + ["broken.py"]


def test_another_answers_as_this_one_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "HERE", (3, 0))
    other = Interpreter((sys.executable, "-B"))
    assert other.version == sys.version_info[:2]
    sources = {**SOURCES, "null.py": "x = '\0'", "deep.py": "(" * 5000, "surrogate.py": "'\ud800'"}
    expected = {name: found for name, text in sources.items() if (found := fault(text))}
    assert other.faults(sources) == expected
    assert other.faults({}) == {}


def test_a_newer_python_reads_what_only_it_can() -> None:
    newer = Interpreter((python((3, 12)),))
    assert (newer.version or (0, 0)) >= (3, 12)
    assert list(newer.faults(SOURCES)) == ["broken.py"]


def test_an_older_python_refuses_what_this_one_may_read() -> None:
    older = Interpreter((python((3, 7), (3, 11)),))
    assert (older.version or (9, 9)) <= (3, 11)
    assert set(older.faults(SOURCES)) == {"newer.py", "broken.py"}


@pytest.mark.parametrize(
    "command",
    [
        None,
        ("/no/such/python",),
        ("false",),
        ("echo", "no JSON"),
        ("echo", '{"version": "three"}'),
        ("echo", "[1]"),
    ],
)
def test_one_that_cannot_be_asked_may_be_any(command: tuple[str, ...] | None) -> None:
    unknown = Interpreter(command)
    assert unknown.version is None
    assert list(unknown.faults(SOURCES)) == ["broken.py"]


def test_one_that_falls_silent_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter, "HERE", (3, 0))
    other = Interpreter((sys.executable, "-B"))
    assert other.version
    asked = tmp_path / "asked"
    script = f"open({str(asked)!r}, 'a').write('.'); raise SystemExit(1)"
    monkeypatch.setattr(interpreter, "_SCRIPT", script)
    for _ in range(2):
        assert list(other.faults(SOURCES)) == ["broken.py"]
    assert asked.read_text() == "."
