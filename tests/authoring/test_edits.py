from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.authoring.edits import EditError, apply
from hpcscientist.records.authoring import Edit

CODE = "import math\n\n\ndef area(r):\n    return math.pi * r * r\n\n\nRATE = 0.1\n"
FILES = {"experiment.py": CODE, "helper.py": "HELP = 1\n"}
EDITABLE = ("experiment.py", "extra/*.py")

names = st.sampled_from(["a.py", "b.py", "c.txt"])
texts = st.text(alphabet="ab\n ", max_size=12)
file_sets = st.dictionaries(names, texts, min_size=1)
edit_lists = st.lists(
    st.builds(Edit, file=names, search=st.none() | texts, replace=texts), max_size=4
)


def rejected(edit: Edit, files: dict[str, str] | None = None) -> EditError:
    result = apply(FILES if files is None else files, [edit], EDITABLE)
    assert isinstance(result, EditError)
    assert "\n" not in result.reason
    return result


@given(file_sets)
def test_no_edits_change_nothing(files: dict[str, str]) -> None:
    assert apply(files, [], files) == files


@given(file_sets, edit_lists)
def test_all_or_nothing_and_only_named_files(files: dict[str, str], edits: list[Edit]) -> None:
    before = dict(files)
    editable = ("a.py", "b.py")
    result = apply(files, edits, editable)
    assert files == before
    if isinstance(result, dict):
        named = {edit.file for edit in edits}
        assert named <= set(editable)
        assert {n: t for n, t in result.items() if n not in named} == {
            n: t for n, t in files.items() if n not in named
        }


@given(st.text(alphabet="a;\n", max_size=12), st.text(alphabet="a;\n", min_size=1), texts)
def test_a_search_text_must_occur_exactly_once(text: str, search: str, new: str) -> None:
    def cuts(at: int) -> bool:
        return "aa" in text[max(0, at - 1) : at + 1]

    ends = [(i, i + len(search)) for i in range(len(text)) if text.startswith(search, i)]
    places = [(i, j) for i, j in ends if not cuts(i) and not cuts(j)]  # whole words
    result = apply({"a.c": text}, [Edit(file="a.c", search=search, replace=new)], ["a.c"])
    if len(places) == 1:
        at, end = places[0]
        assert result == {"a.c": text[:at] + new + text[end:]}
    else:
        assert isinstance(result, EditError) or not places


def test_edits_are_applied_in_order() -> None:
    edits = [
        Edit(file="experiment.py", search="RATE = 0.1", replace="RATE = 0.2"),
        Edit(file="experiment.py", search="RATE = 0.2", replace="RATE = 0.3"),
        Edit(file="extra/new.py", replace="X = 1\n"),
        Edit(file="extra/new.py", search="1", replace="2"),
    ]
    result = apply(FILES, edits, EDITABLE)
    assert result == {
        "experiment.py": CODE.replace("0.1", "0.3"),
        "helper.py": "HELP = 1\n",
        "extra/new.py": "X = 2\n",
    }


def test_one_bad_edit_rejects_all() -> None:
    good = Edit(file="experiment.py", search="RATE = 0.1", replace="RATE = 0.2")
    bad = Edit(file="experiment.py", search="no such text", replace="")
    assert isinstance(apply(FILES, [good, bad], EDITABLE), EditError)


def test_a_whole_file_is_replaced_and_may_become_empty() -> None:
    edit = Edit(file="experiment.py", search=None, replace="")
    assert apply(FILES, [edit], EDITABLE) == {**FILES, "experiment.py": ""}


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("helper.py", "may not"),
        ("missing.py", "no such"),
        ("", "no such"),
        ("/etc/passwd", "no such"),
        ("./experiment.py", "no such"),
        ("extra/../experiment.py", "no such"),
        ("extra/../../x.py", "no such"),
        ("extra/__pycache__/x.py", "no such"),
        ("extra/x\n.py", "no such"),
        ("extra\\x.py", "no such"),
    ],
)
def test_other_files_are_refused(file: str, reason: str) -> None:
    error = rejected(Edit(file=file, replace="X = 1\n"))
    assert reason in error.reason
    assert "experiment.py" in error.reason


def test_a_pattern_that_matches_a_path_upwards_gives_no_way_out() -> None:
    edit = Edit(file="a/../../b.py", replace="")
    assert isinstance(apply({}, [edit], ["*"]), EditError)


def test_searching_in_a_new_file_is_refused() -> None:
    error = rejected(Edit(file="extra/new.py", search="x", replace="y"))
    assert re.search("no such.* null ", error.reason)


def test_an_empty_search_is_refused() -> None:
    error = rejected(Edit(file="experiment.py", search="", replace="y"))
    assert "null" in error.reason


def test_ambiguity_names_the_lines() -> None:
    error = rejected(Edit(file="experiment.py", search="math", replace="m"))
    assert "lines 1, 5" in error.reason


def test_overlapping_places_are_ambiguous() -> None:
    assert isinstance(
        apply({"a": "aaa"}, [Edit(file="a", search="aa", replace="b")], ["a"]), EditError
    )


def test_a_missing_text_is_explained_with_near_lines() -> None:
    search = "def area(r):\n    return math.pi * r ** 2"
    error = rejected(Edit(file="experiment.py", search=search, replace=""))
    wanted, nearest = "'return math.pi * r ** 2'", "'return math.pi * r * r'"
    assert re.findall("'.*?'| line 5,", error.reason) == [wanted, " line 5,", nearest]
    assert error.near == ("line 4: def area(r):", "line 5:     return math.pi * r * r")
    assert "    line 5:" in str(error)


def test_lines_in_another_order_are_explained() -> None:
    search = "    return math.pi * r * r\ndef area(r):"
    error = rejected(Edit(file="experiment.py", search=search, replace=""))
    assert "white space" in error.reason
    assert error.near == ("line 4: def area(r):", "line 5:     return math.pi * r * r")


def test_blank_search_texts_are_explained() -> None:
    error = rejected(Edit(file="experiment.py", search="\n\n\n\n", replace=""))
    assert "occur" in error.reason


def test_texts_that_cannot_be_written_are_refused() -> None:
    edit = Edit.model_construct(file="experiment.py", search=None, replace="x = '\ud800'")
    assert "UTF-8" in rejected(edit).reason


def test_line_endings_are_kept() -> None:
    files = {"a.py": "x = 1\r\ny = 2\r\n"}
    result = apply(files, [Edit(file="a.py", search="1", replace="3")], ["a.py"])
    assert result == {"a.py": "x = 3\r\ny = 2\r\n"}
