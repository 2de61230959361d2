from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.authoring.checks import Problem, check


def test_good_code_has_no_problem_and_is_not_run() -> None:
    files = {"a.py": "import no_such_module\nraise SystemExit(1)\n", "b/c.py": "", "d.txt": "x x"}
    assert check(files) == []


def test_file_and_line_are_named() -> None:
    problems = check({"b.py": "def f(:\n", "a.py": "x = 1\nfor\n", "c.py": "x = 1\n"})
    assert [(p.file, p.line) for p in problems] == [("a.py", 2), ("b.py", 1)]
    assert str(problems[0]).startswith("a.py:2: syntax error: ")


@pytest.mark.parametrize(
    "source",
    [
        "return 1\n",
        "x = 'open\n",
        "if True:\nx = 1\n",
        "\tx = 1\n  y = 2\n",
        "x = 1\0\n",
        "x = '\ud800'\n",
        "# coding: no-such-codec\nx = 1\n",
        "-" * 100_000 + "1",
        "a" + ".b" * 50_000,
        "not " * 50_000 + "x",
        "await x\n",
        "x = " + "1" * 5000,
    ],
)
def test_what_does_not_compile_is_one_problem(source: str) -> None:
    (problem,) = check({"experiment.py": source})
    assert problem.message


@pytest.mark.parametrize("source", ["x = '\\d'\n", "x = 1 is 1\n", "assert (1, 'always')\n"])
def test_warnings_are_not_problems(source: str) -> None:
    assert check({"experiment.py": source}) == []


def test_a_problem_without_line_reads_well() -> None:
    assert str(Problem(file="a.py", line=None, message="bad")) == "a.py: bad"


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_checked(text: str) -> None:
    problems = check({"a.py": text})
    assert all(problem.file == "a.py" and problem.message for problem in problems)
