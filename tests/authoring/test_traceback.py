from __future__ import annotations

import io
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.traceback import Traceback

from hpcscientist.authoring.tracebacks.log import MAX_ERROR, MAX_FRAMES, Frame, frames, last_error


def test_a_log_whose_start_is_cut_off() -> None:
    files = {"experiment.py": "def f():\n    1 / 0\n\nf()\n"}
    log = (
        'ent.py", line 4, in <module>\n    f()\n'
        '  File "/scratch/x/experiment.py", line 2, in f\n    1 / 0\n    ~~^~~\n'
        "ZeroDivisionError: division by zero\n"
    )
    assert frames(log, files) == [Frame(file="experiment.py", line=2, function="f", code="1 / 0")]
    assert last_error(log) == "ZeroDivisionError: division by zero"


def test_a_library_s_file_of_the_same_name_is_not_ours() -> None:
    files = {"utils.py": "a = 1\nb = 2\n"}
    log = (
        "Traceback (most recent call last):\n"
        '  File "/env/lib/python3.11/site-packages/torch/utils.py", line 1, in go\n    a = 1\n'
        '  File "/opt/other/utils.py", line 2, in there\n    other()\n'
        '  File "/opt/myutils.py", line 1, in here\n    a = 1\n'
        '  File "/opt/utils.py", line 77, in beyond\n'
        "ValueError: x\n"
    )
    assert frames(log, files) == []
    assert last_error(log) == "ValueError: x"


def test_the_longest_name_that_fits_is_taken() -> None:
    files = {"layers.py": "x\n", "model/layers.py": "def f(): y\n"}
    log = 'Traceback (most recent call last):\n  File "/s/model/layers.py", line 1, in f\n'
    assert [f.file for f in frames(log, files)] == ["model/layers.py"]


def test_marks_of_ranks_and_colours_are_read_past() -> None:
    log = (
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/s/experiment.py", line 1, in <module>\n'
        "[rank0]:     \x1b[31mboom()\x1b[0m\n"
        "[rank0]: \x1b[1mNameError\x1b[0m: boom\n"
    )
    assert [f.line for f in frames(log, {"experiment.py": "boom()"})] == [1]
    assert last_error(log) == "NameError: boom"


def test_source_lines_of_newer_pythons() -> None:
    log = (
        "Traceback (most recent call last):\n"
        '  File "/s/experiment.py", line 1, in <module>\n'
        "    total = (a\n             ~\n             | b)\n             ^^^\n"
        "TypeError: unsupported\n"
    )
    found = frames(log, {"experiment.py": "total = (a\n         | b)\n"})
    assert [f.code for f in found] == ["total = (a"]
    assert last_error(log) == "TypeError: unsupported"


@pytest.mark.parametrize(
    ("log", "last"),
    [
        ("", ""),
        ("\n \n", ""),
        ("epoch 1\r\rKilled\n\n", "Killed"),
        ("Traceback (most recent call last):\n", "Traceback (most recent call last):"),
        ('File "a", line ' + "9" * 5000 + ", in f", None),
    ],
)
def test_logs_without_a_traceback(log: str, last: str | None) -> None:
    assert frames(log, {"a": "x"}) == []
    if last is not None:
        assert last_error(log) == last


def test_length_is_bounded() -> None:
    lines = [f"def f{n}(): pass" for n in range(1, 101)]
    log = "Traceback (most recent call last):\n" + "".join(
        f'  File "/s/e.py", line {n}, in f{n}\n' for n in range(1, 101)
    )
    found = frames(log, {"e.py": "\n".join(lines)})
    assert [f.line for f in found] == list(range(101 - MAX_FRAMES, 101))
    assert len(last_error("ValueError: " + "x" * 9999)) <= MAX_ERROR
    assert "\n" not in last_error(log)


PIECES = st.sampled_from(
    [
        "Traceback (most recent call last):\n",
        '  File "/s/e.py", line 1, in f\n',
        '  File "e.py", line 0\n',
        '  File "", line 2, in \n',
        "    x = 1\n",
        "  | ",
        "  + Exception Group Traceback (most recent call last):\n",
        "  +-+---------------- 1 ----------------\n",
        "Exception ignored in: <f>\n",
        "  [Previous line repeated 3 more times]\n",
        "ValueError:\n",
        "Fatal Python error: Aborted\n",
        "Current thread 0x00f (most recent call first):\n",
        "Stack (most recent call last):\n",
        "terminate called after throwing an instance of 'x'\n",
        "╭──── Traceback (most recent call last) ────╮\n",
        "│ /s/e.py:1 in f   │\n",
        "│ ❱ 1 x = 1        │\n",
        "[rank1]: Traceback (most recent call last):\n",
        '[rank1]:   File "/s/e.py", line 1, in f\n',
        "b'Traceback (most recent call last):\\n  File \\",
        '  File "/s/e.py", line 1:\n',
        "╭─ Traceback (most recent c─╮\n",
        "╭── Sub-exception #1 ──╮\n",
        "╰──────╯\n",
        "│ │ e.py:1 in f │ │\n",
        "ValueError          Traceback (most recent call last)\n",
        "File /s/e.py:1, in f(x)\n",
        "----> 1 x = 1\n",
        "ValueError: in user code:\n\n",
        "    /s/e.py:1 f  *\n",
        '> File "/s/e.py", line 1, in f\n',
        "0: ",
        "[1,0]<stderr>:",
        "-" * 79 + "\n",
        "e.py 1 <module>\n",
        "[... 12 bytes of output were dropped here ...]\n",
        "\r",
        "\n",
    ]
)


@given(st.lists(PIECES | st.text(max_size=8), max_size=20), st.text(max_size=20))
def test_no_text_does_harm(pieces: list[str], source: str) -> None:
    log = "".join(pieces)
    for frame in frames(log, {"e.py": source, "": source}):
        assert frame.line >= 1
    assert len(last_error(log)) <= MAX_ERROR
    assert "\n" not in last_error(log)


def test_source_that_ends_in_crlf() -> None:
    files = {"e.py": "def f():\r\n    1 / 0\r\n\r\nf()\r\n"}
    log = 'Traceback (most recent call last):\n  File "/s/e.py", line 2, in f\n    1 / 0\n'
    assert [f.code for f in frames(log, files)] == ["1 / 0"]


def test_a_stack_is_better_than_nothing() -> None:
    files = {"e.py": "def f():\n    show()\n\nf()\n"}
    outer = '  File "/s/e.py", line 4, in <module>\n    f()\n'
    stack = outer + '  File "/s/e.py", line 2, in f\n    show()\n'
    assert [f.line for f in frames(f"slow\n{stack}Killed\n", files)] == [4, 2]
    real = f"Traceback (most recent call last):\n{outer}E\n"
    assert [f.line for f in frames(f"slow\n{stack}on\n{real}", files)] == [4]


def test_only_the_function_that_holds_the_line_where_no_source_is_shown() -> None:
    files = {"e.py": "def f():\n    g()\n\ndef g():\n    pass\n"}
    head = "Current thread 0x00f (most recent call first):\n"
    assert [f.line for f in frames(f'{head}  File "/s/e.py", line 2 in f\n', files)] == [2]
    assert frames(f'{head}  File "/s/e.py", line 2 in g\n', files) == []
    unread = {"e.py": "(\n["}  # not even Python
    assert [f.line for f in frames(f'{head}  File "/s/e.py", line 2 in g\n', unread)] == [2]


def test_many_letters_beyond_ascii_are_compared_at_once() -> None:
    source = "x" + "éa" * 4000 + "éb" + "éa" * 4000
    shown = "x" + "a" * 9000
    log = f'Traceback (most recent call last):\n  File "/s/e.py", line 1, in f\n    {shown}\n'
    assert frames(log, {"e.py": source}) == []


def test_a_box_of_blanks_is_read_at_once() -> None:
    log = "╭─ Traceback (most recent call last) ─╮\n│ ❱ 1 " + "  │ " * 50_000 + "\n"
    assert frames(log, {"e.py": "x"}) == []


def test_a_gpu_s_assertion_is_told() -> None:
    log = (
        "a.cu:1: f: block: [0,0,0], thread: [0,0,0] Assertion `t < n_classes` failed.\n"
        "Traceback (most recent call last):\n"
        "RuntimeError: CUDA error: device-side assert triggered\n"
    )
    assert (
        last_error(log) == "RuntimeError: CUDA error: device-side assert triggered (t < n_classes)"
    )
    assert last_error("a\nb: device-side assert triggered") == "b: device-side assert triggered"


@pytest.mark.parametrize("text", ["Traceback of ", " ", "\x1b[0", "a.<locals>.", "| ", "Error"])
def test_lines_that_take_long_to_match_are_cut(text: str) -> None:
    log = "Traceback (most recent call last):\n" + text * 100_000
    assert frames(log, {"e.py": "x"}) == []
    assert len(last_error(log)) <= MAX_ERROR


STREAM = (
    "Traceback (most recent call last):\n"
    '  File "/s/e.py", line 4, in <module>\n    f()\n'
    '  File "/s/e.py", line 2, in f\n    return 1 / 0\n           ~~^~~\n'
    "ZeroDivisionError: division by zero\n"
).splitlines()
E_PY = {"e.py": "def f():\n    return 1 / 0\n\nf()\n"}


@given(
    st.from_regex(r"[(\[<]?[a-z]{0,6}[ ,:=-]?[0-9]{1,4}[)\]>]?[:| ] ?", fullmatch=True),
    st.lists(st.integers(0, 2), min_size=24, max_size=24),
)
def test_a_label_before_each_line_is_read_past(label: str, turns: list[int]) -> None:
    lines = {rank: ["start", *STREAM, "", "end"] for rank in range(3)}
    written = []
    for rank in [*turns, *sorted([0, 1, 2] * 10)]:
        if lines[rank]:
            own_label = re.sub(r"[0-9]+", lambda m, r=rank: str(int(m.group()) + r), label)
            written.append(own_label + lines[rank].pop(0))
    log = "\n".join(written)
    assert [f.line for f in frames(log, E_PY)] == [4, 2], log
    assert last_error(log) == "ZeroDivisionError: division by zero"


def test_the_rank_that_failed_first_and_not_what_stood_before_it() -> None:
    early = STREAM[0] + '\n  File "/s/e.py", line 4, in <module>\n    f()\nKeyError: 1\n'
    first = "\n".join(f"3: {line}" for line in STREAM) + "\n"
    second = "\n".join(f"1: {line}" for line in [*STREAM[:3], "ConnectionError: gone"]) + "\n"
    assert last_error(early + first + second) == "ZeroDivisionError: division by zero"
    assert last_error(first + second + early) == "KeyError: 1"


def test_words_before_a_traceback_are_no_label() -> None:
    log = "loss 0.5\nloss 0.4" + "\n".join(STREAM)
    assert [f.line for f in frames(log, E_PY)] == [4, 2]
    assert last_error("loss 0.5\nloss 0.4\nloss 0.3") == "loss 0.3"


def _boxed(path: Path, source: str, width: int) -> str:
    """Return what rich draws of a failure in a file."""
    path.parent.mkdir(parents=True)
    path.write_text(source)
    console = Console(file=io.StringIO(), width=width)
    try:
        exec(compile(source, str(path), "exec"), {})
    except (ZeroDivisionError, ValueError) as error:
        below = error.__traceback__.tb_next if error.__traceback__ else None
        console.print(Traceback.from_exception(type(error), error, below, width=width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [34, 60, 80, 100])
def test_a_path_of_any_length_in_a_box_of_any_width(width: int) -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are long
        for length in range(len(folder) + 7, 110, 3):
            path = Path(folder) / ("x" * (length - len(folder) - 6)) / "e.py"
            log = _boxed(path, E_PY["e.py"], width)
            found = [(f.line, f.function) for f in frames(log, E_PY)]
            assert found == [(4, "<module>"), (2, "f")], log


def test_a_message_below_a_box_is_read_whole(tmp_path: Path) -> None:
    words = " ".join(f"word{n}" for n in range(30))
    log = _boxed(tmp_path / "x" / "e.py", f"raise ValueError('{words}')\n", 80)
    assert last_error(f"{log}after\n") == f"ValueError: {words}"


def test_boxes_in_boxes_without_end_are_read() -> None:
    boxes = [f"{'│ ' * n}╭─{'─' * 8} Sub-exception #1 ─╮{' │' * n}" for n in range(600)]
    assert last_error("\n".join([*boxes, "ValueError: x"])) == "ValueError: x"
