"""Whole files and parts of them, as they come wrapped and escaped; see also the corpus of edits."""

from __future__ import annotations

import html
import json
import random
from collections.abc import Callable

import pytest
from mess_kit import sample
from messy_kit import FOLDER

from hpcscientist.authoring.edits import Applied, EditError, apply, apply_noted
from hpcscientist.records.authoring import Edit

SOURCES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.py.txt"))}
WRAPS: dict[str, Callable[[str], str]] = {
    "fence": lambda text: f"```python:a.py\n{text}```",
    "tag": lambda text: f'<file path="a.py">\n{text}</file>',
    "tag and fence": lambda text: f"<file>\n```py\n{text}```\n</file>",
    "JSON": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON string": json.dumps,
    "HTML": html.escape,
    "call": lambda text: json.dumps({"path": "a.py", "content": text}),
}


@pytest.mark.parametrize("how", WRAPS)
@pytest.mark.parametrize("name", SOURCES)
def test_a_whole_file_is_what_is_within(name: str, how: str) -> None:
    text = SOURCES[name]
    edit = Edit(file="a.py", replace=WRAPS[how](text))
    for files in ({}, {"a.py": "x = 1\n"}):
        assert apply(files, [edit], ["a.py"]) == {"a.py": text}


@pytest.mark.parametrize("how", ["plain", "JSON", "HTML", "block", "blocks", "resolved"])
@pytest.mark.parametrize("name", SOURCES)
def test_an_edit_is_what_is_within(name: str, how: str) -> None:
    rng = random.Random(f"{name} {how}")
    text, found = SOURCES[name], 0
    for _ in range(25):
        one = sample(text, rng)
        if one is None:
            continue
        lines, right = one.text.split("\n"), one.right.split("\n")
        old = "\n".join(lines[one.first : one.last + 1])
        new = "\n".join(right[one.first : len(right) - len(lines) + one.last + 1])
        block = f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"
        if how == "resolved":
            whole = [*lines[: one.first], block, *lines[one.last + 1 :]]
            edit = Edit(file="a.py", replace="\n".join(whole))
        elif "block" in how:
            edit = Edit(file="a.py", replace=f"```\n{block}\n```" if how == "blocks" else block)
        else:
            wrap = WRAPS.get(how, str)
            edit = Edit(file="a.py", search=wrap(old), replace=wrap(new))
        result = apply({"a.py": one.text}, [edit], ["a.py"])
        # What is not certain is refused, and never wrong.
        if isinstance(result, dict):
            found += 1
            assert result["a.py"] == one.right
    assert found >= 10


def test_how_an_edit_was_read_is_noted() -> None:
    block = "<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE"
    found = apply_noted({"a.py": "y = 0\nx = 1\n"}, [Edit(file="a.py", replace=block)], ["a.py"])
    assert isinstance(found, Applied)
    (note,) = found.notes
    assert (note.first, note.beside) == (2, ("conflict markers",))


def test_a_part_that_is_refused_is_named_and_none_is_applied() -> None:
    block = "<<<<<<< SEARCH\n{}\n=======\nx = 2\n>>>>>>> REPLACE\n"
    text = block.format("x = 1") + block.format("z = 1")
    files = {"a.py": "x = 1\n"}
    found = apply(files, [Edit(file="a.py", replace=text)], ["a.py"])
    assert isinstance(found, EditError)
    assert "part 2 of 2" in found.reason
    assert files == {"a.py": "x = 1\n"}


def test_a_file_that_holds_conflict_markers_can_be_edited() -> None:
    conflict = "a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> x\n"
    change = Edit(file="a.yaml", search="a: 1", replace="a: 2")
    assert apply({"a.yaml": conflict}, [change], ["*"]) == {
        "a.yaml": conflict.replace("a: 1", "a: 2")
    }
    solved = Edit(file="a.yaml", search=conflict[5:], replace="b: 2\n")
    assert apply({"a.yaml": conflict}, [solved], ["*"]) == {"a.yaml": "a: 1\nb: 2\n"}
