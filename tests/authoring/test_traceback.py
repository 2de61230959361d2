from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traceback_corpus import CASES, Case

from hpcscientist.authoring.traceback import MAX_FRAMES, MAX_HEADLINE, Frame, frames, headline


def run(case: Case, folder: Path) -> str:
    """Run a case as a trial would be, in a scratch folder; return what it printed."""
    for name, text in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-B", str(folder / case.arguments[0])],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**environment, "PYTHONIOENCODING": "utf-8"},
        cwd=folder,
        timeout=60,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_real_tracebacks(case: Case, tmp_path: Path) -> None:
    log = run(case, tmp_path / "trials" / "t-1" / "code")
    found = frames(log, case.files)
    assert [(f.file, f.line, f.function) for f in found] == case.places, log
    for frame in found:
        assert frame.code == case.files[frame.file].split("\n")[frame.line - 1].strip()
    assert headline(log).startswith(case.headline), log


def test_a_log_whose_start_is_cut_off() -> None:
    files = {"experiment.py": "def f():\n    1 / 0\n\nf()\n"}
    log = (
        'ent.py", line 4, in <module>\n    f()\n'
        '  File "/scratch/x/experiment.py", line 2, in f\n    1 / 0\n    ~~^~~\n'
        "ZeroDivisionError: division by zero\n"
    )
    assert frames(log, files) == [Frame(file="experiment.py", line=2, function="f", code="1 / 0")]
    assert headline(log) == "ZeroDivisionError: division by zero"


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
    assert headline(log) == "ValueError: x"


def test_the_longest_name_that_fits_is_taken() -> None:
    files = {"layers.py": "x\n", "model/layers.py": "y\n"}
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
    assert headline(log) == "NameError: boom"


def test_source_lines_of_newer_pythons() -> None:
    log = (
        "Traceback (most recent call last):\n"
        '  File "/s/experiment.py", line 1, in <module>\n'
        "    total = (a\n             ~\n             | b)\n             ^^^\n"
        "TypeError: unsupported\n"
    )
    found = frames(log, {"experiment.py": "total = (a\n         | b)\n"})
    assert [f.code for f in found] == ["total = (a"]
    assert headline(log) == "TypeError: unsupported"


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
        assert headline(log) == last


def test_length_is_bounded() -> None:
    lines = [f"f{n}()" for n in range(1, 101)]
    log = "Traceback (most recent call last):\n" + "".join(
        f'  File "/s/e.py", line {n}, in f{n}\n' for n in range(1, 101)
    )
    found = frames(log, {"e.py": "\n".join(lines)})
    assert [f.line for f in found] == list(range(101 - MAX_FRAMES, 101))
    assert len(headline("ValueError: " + "x" * 9999)) <= MAX_HEADLINE
    assert "\n" not in headline(log)


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
        "\r",
        "\n",
    ]
)


@given(st.lists(PIECES | st.text(max_size=8), max_size=20), st.text(max_size=20))
def test_no_text_does_harm(pieces: list[str], source: str) -> None:
    log = "".join(pieces)
    for frame in frames(log, {"e.py": source, "": source}):
        assert frame.line >= 1
    assert len(headline(log)) <= MAX_HEADLINE
    assert "\n" not in headline(log)
