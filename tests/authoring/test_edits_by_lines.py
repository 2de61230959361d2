"""Properties of edits that are exact copies but for white space, and of those that are not."""

from __future__ import annotations

import random
import re
import sysconfig
from pathlib import Path

import mess_kit
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hpcscientist.authoring.edits import Applied, EditError, apply, apply_noted
from hpcscientist.records.authoring import Edit

LIBRARY = Path(sysconfig.get_path("stdlib"))
NAMES = (
    "textwrap.py", "csv.py", "heapq.py", "queue.py", "sched.py", "bisect.py", "reprlib.py",
    "json/encoder.py", "json/decoder.py", "fractions.py", "shlex.py", "string.py",
    "contextlib.py", "copy.py", "graphlib.py", "fileinput.py",
)  # fmt: skip
SOURCES = {name: (LIBRARY / name).read_text(encoding="utf-8") for name in NAMES}
FEW = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
sources = st.sampled_from(NAMES)
seeds = st.integers(0, 10**9)
messes = st.lists(st.sampled_from(sorted(mess_kit.MESSES)), max_size=3, unique=True)
wrappings = st.sampled_from([None, None, None, *mess_kit.WRAPPINGS])


def edited(text: str, search: str, new: str) -> Applied | EditError:
    return apply_noted({"a.py": text}, [Edit(file="a.py", search=search, replace=new)], ["a.py"])


def filled(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def compiles(text: str) -> bool:
    try:
        compile(text, "a.py", "exec")
    except SyntaxError:
        return False
    return True


@FEW
@given(sources, seeds, messes, wrappings)
def test_a_messy_edit_of_real_code_is_right_or_refused(
    name: str, seed: int, kinds: list[str], wrap: mess_kit.Wrap | None
) -> None:
    rng = random.Random(seed)
    sample = mess_kit.sample(SOURCES[name], rng)
    assume(sample is not None)
    assert sample is not None
    pairs = sample.pairs
    for kind in kinds:
        pairs = mess_kit.MESSES[kind](pairs, rng) or pairs
    search, new = mess_kit.texts(pairs)
    if wrap is not None:
        search, new = wrap(search, new, rng)
    assume(search.strip())
    result = edited(sample.text, search, new)
    if isinstance(result, EditError):
        return
    (note,) = result.notes
    got = result.files["a.py"]
    if note.matched == "exact" and not compiles(got):
        return  # put in as it stands, and the checks of syntax refuse it
    # Blank lines that the mess took away or added need not be as they were.
    assert filled(got) == filled(sample.right)
    if not kinds and wrap is None:
        assert got == sample.right


@FEW
@given(sources, seeds, messes)
def test_an_edit_of_code_that_is_gone_is_refused(name: str, seed: int, kinds: list[str]) -> None:
    rng = random.Random(seed)
    sample = mess_kit.sample(SOURCES[name], rng)
    assume(sample is not None)
    assert sample is not None
    quoted = [line for line, _ in sample.pairs if line is not None and line.strip()]
    assume(len(quoted) >= 3)
    lines = sample.text.split("\n")
    gone = "\n".join([*lines[: sample.first], *lines[sample.last + 1 :]])
    pairs = sample.pairs
    for kind in kinds:
        pairs = mess_kit.MESSES[kind](pairs, rng) or pairs
    search, new = mess_kit.texts(pairs)
    code = "\n".join(quoted)
    # What stands a second time in the file, word by word, can rightly be found there.
    assume(search.strip() and " ".join(code.split()) not in " ".join(gone.split()))
    shown = [line for line in filled(search) if not line.strip().startswith(("#", "..."))]
    assume(len(shown) >= 3)
    assert isinstance(edited(gone, search, new), EditError)


@FEW
@given(sources, seeds)
def test_an_edit_gives_back_what_it_says(name: str, seed: int) -> None:
    sample = mess_kit.sample(SOURCES[name], random.Random(seed))
    assume(sample is not None)
    assert sample is not None
    search, new = mess_kit.texts(sample.pairs)
    assume(sample.text.count(search) == 1 and new)
    result = edited(sample.text, search, new)
    assert isinstance(result, Applied)
    assert result.files == {"a.py": sample.right}
    assert result.notes[0].matched == "exact"
    assert (result.notes[0].first, result.notes[0].last) == (sample.first + 1, sample.last + 1)


CODE = "def f(x):\n    a = x\n    return a\n\n\ndef g(x):\n    a = x\n    return -a\n"


def test_an_exact_place_wins_over_likelier_readings() -> None:
    text = "x = 1  \nx = 1\n"
    result = edited(text, "x = 1\n", "x = 2\n")
    assert isinstance(result, Applied)
    assert result.files["a.py"] == "x = 1  \nx = 2\n"


def test_all_or_nothing_over_all_files() -> None:
    files = {"a.py": CODE, "b.py": "Y = 1\n"}
    edits = [
        Edit(file="b.py", search="Y = 1", replace="Y = 2"),
        Edit(file="a.py", search="  return -a", replace="  return a"),
        Edit(file="a.py", search="a = x", replace="a = y"),
    ]
    result = apply(files, edits, ["*.py"])
    assert isinstance(result, EditError)
    assert (result.edit, result.of) == (3, 3)
    assert "lines 2, 7" in result.reason
    assert str(result).startswith("a.py: edit 3 of 3: ")
    assert files == {"a.py": CODE, "b.py": "Y = 1\n"}
    applied = apply_noted(files, edits[:2], ["*.py"])
    assert isinstance(applied, Applied)
    assert applied.files == {"a.py": CODE.replace("-a", "a"), "b.py": "Y = 2\n"}
    assert [note.matched for note in applied.notes] == ["exact", "indentation"]
    assert (applied.notes[1].first, applied.notes[1].last) == (8, 8)


def test_an_edit_that_is_repeated_is_carried_out_once() -> None:
    edit = Edit(file="a.py", search="    return -a", replace="    a += 1\n    return -a")
    result = apply({"a.py": CODE}, [edit, edit], ["a.py"])
    assert result == {"a.py": CODE.replace("    return -a", "    a += 1\n    return -a")}


@pytest.mark.parametrize("text", ["lr = 0.15\n", "min_lr = 0.1\n", "lr = 0.1e-3\n", "lr = 0.1_0\n"])
def test_words_and_numbers_are_not_cut_in_two(text: str) -> None:
    assert isinstance(edited(text, "lr = 0.1", "lr = 0.5"), EditError)


def test_a_whole_word_is_found_beside_a_longer_one() -> None:
    result = edited("lr = 0.1\nmin_lr = 0.1\n", "lr = 0.1", "lr = 0.5")
    assert isinstance(result, Applied)
    assert result.files["a.py"] == "lr = 0.5\nmin_lr = 0.1\n"


def test_a_file_of_windows_keeps_its_line_ends() -> None:
    text = CODE.replace("\n", "\r\n")
    result = edited(text, "def g(x):\n    a = x\n", "def g(x):\n    b = 1\n    a = x + b\n")
    assert isinstance(result, Applied)
    assert result.files["a.py"] == (
        CODE.replace("g(x):\n    a = x\n", "g(x):\n    b = 1\n    a = x + b\n").replace(
            "\n", "\r\n"
        )
    )


def test_other_texts_than_python_are_read_by_lines() -> None:
    text = "# width of the net\nwidth: 32\n\nrate: 0.1  # small\n"
    edit = Edit(file="c.yaml", search="width: 32\nrate: 0.1  # small", replace="width: 64\nrate: 1")
    assert apply({"c.yaml": text}, [edit], ["*"]) == {
        "c.yaml": "# width of the net\nwidth: 64\n\nrate: 1\n"
    }
    said = Edit(file="c.yaml", search="# how wide\nwidth: 32", replace="# how wide\nwidth: 64")
    assert isinstance(apply({"c.yaml": text}, [said], ["*"]), EditError)


LOOSER = "import os\n\n\ndef f(path, rate=0.1):\n    # plain\n    return os.stat(path, 'r')\n"


@pytest.mark.parametrize(
    ("search", "line"),
    [
        ("    return os.stat( path,'r' )", 6),  # spacing
        ("stat(path,'r')", 6),  # spacing of a piece of a line
        ("def f(path, rate=0.1):\n    return os.stat(path, 'r')", 4),  # a comment left out
        ("    # simple\n    return os.stat(path, 'r')", 5),  # another comment
        ('    # plain\n    return os.stat(path, "r")', 6),  # other quotes
        ("def f(path,\n      rate=0.1):\n    # plain", 4),  # another layout
        ("def f(path, rate=0.1):\n    # plain\n    retrun os.stat(path, 'r')", 6),  # misspelt
    ],
)
def test_a_looser_copy_is_refused_and_shown_the_nearest_lines(search: str, line: int) -> None:
    error = edited(LOOSER, search, f"{search} or None")
    assert isinstance(error, EditError)
    told = f"line {line}" in error.reason or any(n.startswith(f"line {line}:") for n in error.near)
    assert told


def test_a_refusal_names_the_line_that_differs() -> None:
    error = edited(CODE, "def g(x):\n    a = 2 * x\n    return -a", "")
    assert isinstance(error, EditError)
    assert re.search(r"'a = 2 \* x'.* line 7,.* 'a = x'", error.reason)
    assert error.near == ("line 6: def g(x):", "line 7:     a = x", "line 8:     return -a")


def test_a_new_text_that_stands_already_is_told() -> None:
    error = edited(CODE, "    return a + 1", "    return -a")
    assert isinstance(error, EditError)
    assert re.search(r"\(.* line 8 .*\)$", error.reason)


def test_odd_texts_are_no_fault_of_ours() -> None:
    text = "a = 1\nb = 2\n" * 400
    search = "a = 1\n# ...\nb = 2\n# ...\nb = 2\n# ...\na = 1"
    assert isinstance(edited(text, search, search.replace("2", "3")), EditError)
    assert isinstance(edited(CODE, "def g(x):\n  a = x", "def g(x):\n\0\n  a = x"), EditError)
