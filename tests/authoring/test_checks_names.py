"""Names without a value, and programs that run whatever a linter says."""

from __future__ import annotations

import sys
from textwrap import dedent, indent
from types import FrameType
from typing import Any

import pytest
from checks_kit import found, messages
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.authoring.checks import check
from hpcscientist.system.interpreter import Interpreter


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f():\n    return math.pi", [(2, "'math' is not defined")]),
        ("lr = 1\nprint(lrr)", [(2, "'lrr' is not defined; did you mean 'lr'?")]),
        ("def f(x: List[int]): pass", [(1, "'List' is not defined; did you mean 'list'?")]),
        ("def f():\n    rate = 1\ndef g():\n    return rate", [(4, "'rate' is not defined")]),
        (
            "try:\n    x = 1\nexcept ValueError as e:\n    pass\nprint(e)",
            [(5, "'e' is not defined")],
        ),
        (
            "class A:\n    size = 3\n    def f(self):\n        return size",
            [(4, "'size' is not defined")],
        ),
        ("print(x)\nx = 1", [(1, "'x' is used before it has a value")]),
        ("count = 0\ndef f():\n    count += 1", [(3, "'count' is used before it has a value")]),
        (
            "def f(v):\n    sum = sum(v)\n    return sum",
            [(2, "'sum' is used before it has a value")],
        ),
        (
            "def f():\n    y = [x for _ in 'ab']\n    x = 1",
            [(2, "'x' is used before it has a value")],
        ),
        (
            "def f(v):\n    for a in v:\n        print(best)\n    best = 1",
            [(3, "'best' is used before it has a value")],
        ),
        (
            "import os\ndef f():\n    os.getcwd()\n    import os",
            [(3, "'os' is used before it has a value")],
        ),
        (
            "if 1:\n    try:\n        y\n    except KeyError:\n        pass",
            [(3, "'y' is not defined")],
        ),
        ("try:\n    y\nexcept Exception:\n    raise", [(2, "'y' is not defined")]),
    ],
)
def test_names_that_have_no_value(source: str, expected: list[tuple[int, str]]) -> None:
    assert found(source) == [("experiment.py", line, message) for line, message in expected]


@pytest.mark.parametrize(
    "source",
    [
        "for i in range(3):\n    if i:\n        print(x)\n    x = i",
        "def f():\n    while True:\n        if seen: return x\n        x = seen = 1\n    seen",
        "x = 1\nfor i in range(0):\n    del x\nprint(x)",
        "import os\ndef f():\n    return os.getcwd()\nf()\ndel os",
        "def f():\n    return later\nlater = 1\nf()",
        "def f():\n    global state\n    state = 1\nf()\nprint(state)",
        "def f():\n    def g():\n        nonlocal x; x = 2\n    g()\n    print(x)\n    x = 1",
        "try:\n    unicode\nexcept NameError:\n    unicode = str",
        "try:\n    tune()\nexcept Exception:\n    pass",
        "import sys\ntext = unicode if sys.version_info[0] == 2 else str",
        "if False:\n    nothing",
        "from math import *\nprint(pi)",
        "exec('x = 1')\nprint(x)",
        "globals().update(x=1)\nprint(x)",
        "import builtins\nbuiltins.profile = print\nprofile(1)",
        "from __future__ import annotations\ndef f(x: Tensor) -> Array: pass",
        "def f(x: 'Tensor'):\n    y: Array = x\n    return y",
        "import typing as t\nT = t.TypeVar('T', bound='Model')\nx = t.cast('Model', 1)",
        "class A:\n    n = 3\n    rows = [0] * n\n    more = [i for i in range(n)]\n"
        "    def f(self): return __class__",
        "x = [y for y in 'ab' if y]\nz = (w := 3) + w\n{k: v for k, v in enumerate(x)}",
        "match [1]:\n    case [first, *rest]: print(first, rest)\n"
        "    case {'a': b, **c}: print(b, c)\n    case d: print(d)",
        "print(__file__, __name__, __doc__, __builtins__, exit)",
        "try:\n    x = 1\nexcept (KeyError, ValueError) as e:\n    f = lambda: e\n    print(f())",
        "with open('a') as f, open(f.name) as g:\n    pass\nprint(f, g)",
        "def f(n):\n    return n and f(n - 1)\nclass B:\n    def copy(self): return B()",
        "gen = (late(i) for i in 'ab')\ndef late(i): return i\nlist(gen)",
    ],
)
def test_code_that_runs_has_no_problem(source: str) -> None:
    assert found(source) == []


def test_newer_grammar_is_read() -> None:
    source = "type Pair[T] = tuple[T, Later]\ndef first[T](x: T) -> T: return x\nclass Box[S]: s: S"
    assert found(source) == []
    here = check({"experiment.py": source}, python=Interpreter((sys.executable,)))
    assert [problem.line for problem in here] == ([] if sys.version_info >= (3, 12) else [1])


def test_a_name_may_be_set_from_another_file() -> None:
    assert found("import config\nconfig.RATE = 3\nconfig.f()", config="def f(): return RATE") == []
    # An attribute of something else is no name.
    own = "class A:\n    def __init__(self):\n        self.rate = 1\nprint(rate)"
    assert messages(own) == ["'rate' is not defined"]


def test_what_the_reference_has_is_no_problem() -> None:
    reference = {"a.py": "def f():\n    return missing\n", "b.py": "import jax\n"}
    changed = reference | {"a.py": "x = 1\ndef f():\n    return missing + more\n"}
    assert [str(p) for p in check(changed, (), reference)] == ["a.py:3: 'more' is not defined"]
    assert len(check(reference, ())) == 2
    assert check(reference, (), reference) == []


def test_a_file_of_the_reference_s_that_is_no_python_hides_nothing() -> None:
    """It runs as it is, so what else is wrong is looked for."""
    reference = {"a.py": "x = 1\n", "old.py": "print 'two'\n"}
    changed = reference | {"a.py": "x = missing\n"}
    assert [str(p) for p in check(changed, (), reference)] == ["a.py:1: 'missing' is not defined"]
    broken = reference | {"old.py": "print 'three'\n"}
    assert [p.file for p in check(broken, (), reference)] == ["old.py"]
    assert [p.file for p in check(reference, ())] == ["old.py"]


# Random programs of one simple statement a line: what a run has passed is no problem.

_NAMES = st.sampled_from("abcd")
_SIMPLE = st.one_of(
    st.builds("{} = 1".format, _NAMES),
    st.builds("{} = {}".format, _NAMES, _NAMES),
    st.builds("{} += 1".format, _NAMES),
    st.builds("del {}".format, _NAMES),
    st.builds("import math as {}".format, _NAMES),
    st.builds("[{0} for {1} in [1]]".format, _NAMES, _NAMES),
    st.builds("list({0} for {1} in [1])".format, _NAMES, _NAMES),
    st.builds("({} := 1)".format, _NAMES),
    st.builds("(lambda {}=1: {})()".format, _NAMES, _NAMES),
)
_HEADS = st.one_of(
    st.builds("for {} in [1, 2]:\n{{}}".format, _NAMES),
    st.just("if True:\n{}"),
    st.just("for _ in []:\n{}"),
    st.builds("try:\n    1 / 0\nexcept ZeroDivisionError as {}:\n{{}}".format, _NAMES),
    st.just("try:\n{}\nexcept NameError:\n    pass"),
    st.builds("def f():\n{{}}\nf()".format),
    st.builds("def f():\n    global {}\n{{}}\nf()".format, _NAMES),
    st.builds("class K:\n{{}}".format),
    st.builds("with open('/dev/null') as {}:\n{{}}".format, _NAMES),
)


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    bodies = st.lists(inner, min_size=1, max_size=3).map("\n".join)
    blocks = st.builds(lambda head, body: head.format(indent(body, "    ")), _HEADS, bodies)
    return st.one_of(inner, blocks)


_PROGRAMS = st.lists(st.recursive(_SIMPLE, _compound, max_leaves=6), min_size=1, max_size=6).map(
    "\n".join
)


def _passed(source: str) -> set[int]:
    """Run a program; return the lines that were reached, without the one that failed."""
    reached: list[int] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != "experiment.py":
            return None
        reached.append(frame.f_lineno)
        return trace

    code = compile(source, "experiment.py", "exec")
    before = sys.gettrace()
    sys.settrace(trace)
    failed = set[int]()
    try:
        exec(code, {"__name__": "program"})
    except (NameError, TypeError, AttributeError) as error:
        step = error.__traceback__
        while step is not None:
            failed.add(step.tb_lineno)
            step = step.tb_next
    finally:
        sys.settrace(before)
    return set(reached) - failed


@settings(max_examples=150, deadline=None)
@given(_PROGRAMS)
def test_what_a_run_has_passed_is_no_problem(source: str) -> None:
    try:
        compile(source, "experiment.py", "exec")
    except SyntaxError:
        return
    lines = {problem.line for problem in check({"experiment.py": source})}
    assert not lines & _passed(source), dedent(source)
