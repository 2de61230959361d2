"""Arguments that do not fit, held against what Python says of the same calls; formatted texts."""

from __future__ import annotations

import pytest
from checks_kit import found, messages
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpcscientist.authoring.checks import check

NET = """
class Net(nn.Module):
    def __init__(self, width, depth=2):
        super().__init__()
        self.block = Block(width)
    def forward(self, x):
        return self.mixed(x, x, 0.5)
    def mixed(self, a, b):
        return a
class Wide(Net):
    def more(self): return Net(1, 2, 3)
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(a, b=1): pass\nf(1, 2, 3)",
         [(2, "f() takes 2 positional arguments, but 3 are given (experiment.py, line 1)")]),
        ("def f(a): pass\nf()", [(2, "f() is not given 'a' (experiment.py, line 1)")]),
        ("def f(a, *, key): pass\nf(1)", [(2, "f() is not given 'key' (experiment.py, line 1)")]),
        ("def train(lr, epochs=1): pass\ntrain(lrr=1, lr=2)",
         [(2, "train() has no parameter 'lrr'; did you mean 'lr'? (experiment.py, line 1)")]),
        ("def f(a): pass\nf(1, a=2)", [(2, "f() is given 'a' twice (experiment.py, line 1)")]),
        ("def f(a, /): pass\nf(a=1)", [(2, "f() has no parameter 'a' (experiment.py, line 1)")]),
        ("def f(a): pass\nf(1, *[], b=2)",
         [(2, "f() has no parameter 'b' (experiment.py, line 1)")]),
        ("import torch\n@torch.no_grad()\ndef f(a): pass\nf()",
         [(4, "f() is not given 'a' (experiment.py, line 3)")]),
        ("def main():\n    def step(x): pass\n    step(1, 2)",
         [(3, "step() takes 1 positional argument, but 2 are given (experiment.py, line 2)")]),
        ("async def f(a): pass\nasync def g(): await f()",
         [(2, "f() is not given 'a' (experiment.py, line 1)")]),
        ("from helper import width\nwidth(1, 2)",
         [(2, "width() takes 1 positional argument, but 2 are given (helper.py, line 1)")]),
        ("import helper as h\nh.width()", [(2, "width() is not given 'x' (helper.py, line 1)")]),
        ("class A:\n    def f(): pass\n    def g(self): self.f()",
         [(3, "self.f() takes 0 positional arguments, but 1 are given (experiment.py, line 2)")]),
        ("class A: pass\nA(3)",
         [(2, "A() takes 0 positional arguments, but 1 are given (experiment.py, line 1)")]),
        ("from torch import nn\nclass Block: pass\n" + NET + "Wide()",
         [(7, "Block() takes 0 positional arguments, but 1 are given (experiment.py, line 2)"),
          (9, "self.mixed() takes 3 positional arguments, but 4 are given "
              "(experiment.py, line 10)"),
          (13, "Net() takes 3 positional arguments, but 4 are given (experiment.py, line 5)"),
          (14, "Wide() is not given 'width' (experiment.py, line 5)")]),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(source: str, expected: list[tuple[int, str]]) -> None:
    problems = found(source, helper="def width(x): return x\n")
    assert problems == [("experiment.py", line, message) for line, message in expected]


@pytest.mark.parametrize(
    "source",
    [
        "def f(a): pass\nf(*[1]); f(**{'a': 1}); f(*[], a=1)",
        "def f(*args, **more): pass\nf(1, 2, b=3)",
        "def f(a): pass\ndef f(a, b): pass\nf(1, 2)",
        "def f(a): pass\nf = print\nf(1, 2)",
        "if True:\n    def f(a): pass\nelse:\n    def f(a, b): pass\nf(1)",
        "def f(a): pass\ndef g(f): f(1, 2)",
        "def f(a): pass\n[f(1, 2) for f in [print]]",
        "def twice(g): return lambda: g(1)\n@twice\ndef f(a): pass\nf()",
        "def f(a): pass\ntry:\n    f(1, 2)\nexcept TypeError:\n    f(1)",
        "def f(a): pass\ndef test(t):\n    with t.assertRaises(TypeError): f()",
        "def f(a, b): pass\nf.__defaults__ = (1,)\nf(1)",
        "import helper\nhelper.width = lambda: 1\nhelper.width()",
        "import helper\nsetattr(helper, 'width', lambda: 1)\nhelper.width()",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nA(1)",
        "from enum import Enum\nclass A(Enum):\n    X = 1\nA(1)",
        "from typing import NamedTuple\nclass A(NamedTuple):\n    x: int\nA(1)",
        "class M(type):\n    def __call__(cls, *a): return a\nclass A(metaclass=M): pass\nA(1)",
        "class A:\n    def __new__(cls, *a): return a\n    def __init__(self): pass\nA(1)",
        "class A(dict): pass\nA(a=1)",
        "class A:\n    def f(self, x): pass\n    def g(self): self.f()\n"
        "class B(A):\n    def f(self): pass\nB().g()",
        "class A:\n    def f(self, x): pass\n    def g(self):\n        self.f = print\n"
        "        self.f()",
        "class A:\n    @staticmethod\n    def f(x): pass\n    def g(self): self.f(1)",
        "class A:\n    @classmethod\n    def f(cls, x): pass\n    def g(self): self.f(1)",
        "class A:\n    @property\n    def f(self): return print\n    def g(self): self.f(1, 2)",
        "class A:\n    def f(self): return 1\n    def g(self):\n        self = B()\n"
        "        self.f(1)\nclass B:\n    pass",
        "def forward(p, x): pass\nclass Net:\n    def forward(self, x): return forward(1, x)",
        "def f(a): pass\ndef g():\n    global f\n    f = print\ng()\nf()",
        "from helper import *\ndef f(a): pass\nf()",
    ],
)  # fmt: skip
def test_calls_that_fit_or_may(source: str) -> None:
    assert found(source, helper="def width(x): return x\n") == []


def test_files_that_import_from_each_other() -> None:
    assert found("from a import f\nf(1)", a="from b import f\n", b="from a import f\n") == []


_PARAMETERS = st.tuples(
    st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.booleans(), st.booleans()
)


@st.composite
def _signatures(draw: st.DrawFn) -> str:
    only, plain, keyed, rest, more = draw(_PARAMETERS)
    names, parts, optional = iter("abcdef"), list[str](), False
    for count, mark in ((only, "/"), (plain, "")):
        for _ in range(count):
            optional = optional or draw(st.booleans())
            parts.append(next(names) + ("=1" if optional else ""))
        if mark and count:
            parts.append(mark)
    if rest or keyed:
        parts.append("*rest" if rest else "*")
    parts += [next(names) + ("=1" if draw(st.booleans()) else "") for _ in range(keyed)]
    return ", ".join([*parts, *(["**more"] if more else [])])


_CALLS = st.builds(
    lambda count, names, star, stars: ", ".join(
        ["0"] * count + ["*S"] * star + [f"{name}=0" for name in sorted(names)] + ["**D"] * stars
    ),
    st.integers(0, 5), st.sets(st.sampled_from("abcdefg"), max_size=3),
    st.booleans(), st.booleans(),
)  # fmt: skip


@example("a, /, **more", "a=0", 0, set())
@settings(max_examples=200, deadline=None)
@given(_signatures(), _CALLS, st.integers(0, 3), st.sets(st.sampled_from("abcdefg"), max_size=3))
def test_python_agrees(signature: str, call: str, many: int, keys: set[str]) -> None:
    source = f"def f({signature}): pass\nf({call})\n"
    problems = check({"e.py": f"S = D = 0\n{source}"})
    try:
        exec(source, {"S": [0] * many, "D": dict.fromkeys(keys, 0)})
        runs = True
    except TypeError:
        runs = False
    if "*" not in call:
        assert bool(problems) is not runs, (source, problems)
    assert not (problems and runs), (source, problems)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("'%s %s' % (1,)", ["% formatting: not enough arguments for format string"]),
        ("'%s' % (1, 2)", ["% formatting: not all arguments converted during string formatting"]),
        ("'%(a)s' % {'b': 1}", ["% formatting: no value for 'a'"]),
        ("x = 1\n'%y' % x", ["% formatting: unsupported format character 'y' (0x79) at index 1"]),
        ("x = 1\n'50%' % x", ["% formatting: incomplete format"]),
        ("'%s %s' % f'{1}'", ["% formatting: not enough arguments for format string"]),
        ("'{} {}'.format(1)", ["'...'.format(...) is missing argument(s) for placeholder(s): 1"]),
        ("'{a}'.format(b=1)", ["'...'.format(...) is missing argument(s) for placeholder(s): a"]),
        ("'{} {0}'.format(1)", ["'...'.format(...) mixes automatic and manual numbering"]),
        ("'{'.format(1)",
         ["'...'.format(...) has invalid format string: Single '{' encountered in format string"]),
    ],
)  # fmt: skip
def test_texts_that_cannot_be_formatted(source: str, expected: list[str]) -> None:
    assert messages(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "'%s' % [1, 2]; 'abc' % (); 'abc' % [1]; '%%' % (); 'abc' % {}; '%s' % {'a': 1}",
        "x = (1, 2)\n'%s %s' % x; '%d %s' % (*x,); '%(a)s' % x; '%s %(a)s' % {'a': 1}",
        "'%*d %.*f' % (3, 1, 2, 1.0); '%999999999999d' % 1; '%-5.2f|%c' % (1, 'x')",
        "'{}'.format(1, 2); '{a}'.format(a=1, b=2); '{} {}'.format(*[1, 2]); '{:{}}'.format(1, 3)",
        "'{0.real} {1[a]}'.format(1, {'a': 1}); '{{}}'.format(); '{:%H:%M}'.format(1)",
        "try:\n    '%s %s' % (1,)\nexcept TypeError:\n    pass",
        "7 % 3; b'%s' % b'x'; '%s' % b'x'; 'abc' % b'x'",
    ],
)
def test_texts_that_can_be_formatted_or_may_be(source: str) -> None:
    assert messages(source) == []


_PIECES = st.sampled_from(
    ["%s", "%d", "%5.2f", "%(a)s", "%(b)-3d", "%%", "%*d", "%.*f", "%y", "x", "%", "%(a", "% %"]
)
_GIVEN = st.one_of(
    st.integers(0, 4).map(lambda count: (1,) * count),
    st.sets(st.sampled_from("abc")).map(lambda keys: dict.fromkeys(sorted(keys), 1)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_PIECES, max_size=4).map("".join), _GIVEN)
def test_python_agrees_on_formats(text: str, values: object) -> None:
    try:
        text % values
        runs = True
    except (TypeError, ValueError, KeyError):
        runs = False
    assert bool(check({"e.py": f"{text!r} % {values!r}\n"})) is not runs
