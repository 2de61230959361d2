"""How names, objects and values are followed through code, one way at a time."""

from __future__ import annotations

import textwrap

import pytest

from hpcscientist.authoring.structure import LocalStructure, local_structure, outline
from hpcscientist.authoring.tracebacks.log import Frame


def code(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def around(text: str, line: int, function: str = "", **files: str) -> LocalStructure:
    every = {"e.py": code(text)} | {f"{name}.py": code(more) for name, more in files.items()}
    return local_structure(every, [Frame(file="e.py", line=line, function=function, code="")])


def names(found: LocalStructure) -> dict[str, int]:
    return {b.name: b.line for b in found.names}


def calls(text: str, **files: str) -> set[str]:
    every = {"e.py": code(text)} | {f"{name}.py": code(more) for name, more in files.items()}
    return {f"{c.caller}>{c.callee}@{c.line}" for c in outline(every).calls}


BOUND = """
    import os as system
    from math import *
    RATE = 1

    def f(a, *rest, b=2, **more):
        global COUNT
        x = y = 1
        if a:
            x = 2
        else:
            z = x
        for i, (j, *k) in rest:
            x += i
        with open(a) as file, open(b) as other:
            pass
        try:
            w: int = 3
        except ValueError as error:
            print(error, w)
        if (v := a) and [q for q in k]:
            match v:
                case [first, *tail] if first:
                    print(first, tail)
        del y
        COUNT = 1
        return a, b, rest, more, x, i, j, k, file, other, v, system, RATE, COUNT, late, nowhere, sin

    late = 1
    """


def test_every_kind_of_binding_is_found() -> None:
    assert names(around(BOUND, 26)) == (
        dict.fromkeys(("a", "b", "rest", "more"), 5)
        | {"x": 13, "i": 12, "j": 12, "k": 12, "file": 14, "other": 14, "v": 20, "system": 1}
        | {"RATE": 3, "COUNT": 25, "late": 28, "nowhere": 2, "sin": 2}
    )


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (11, {"x": 7}),  # not the other branch's
        (13, {"x": 9, "i": 12}),
        (19, {"error": 18, "w": 17}),
        (23, {"first": 22, "tail": 22}),
        (24, {"y": 7}),
    ],
)
def test_the_last_binding_before_a_line_counts(line: int, found: dict[str, int]) -> None:
    assert names(around(BOUND, line)) == found


def test_what_is_bound_too_late_or_nowhere() -> None:
    late = "def f():\n    print(x, y)\n    x = 1\n"
    assert names(around(late, 2)) == {"x": 3, "y": 0}
    turn = "def f():\n    for n in 1, 2:\n        if n > 1:\n            print(x)\n        x = n\n"
    assert names(around(turn, 4)) == {"x": 5}


def test_scopes_nest_as_in_python() -> None:
    text = """
        x = 1

        class A:
            x = 2

            def f(self):
                y = 3

                def g():
                    nonlocal y
                    return x, y, self

                return g

        def h(x=x):
            return lambda x: x
        """
    assert names(around(text, 11)) == {"x": 1, "y": 7}
    assert names(around(text, 16)) == {}


def test_attributes_are_bound_where_they_are_set() -> None:
    text = """
        from base import Base
        import sizes

        class Net(Base):
            depth = 3

            def __init__(self, width):
                super().__init__()
                self.width, self.inner = width, Inner()

            def forward(self, x):
                self.x = x
                return self.x, self.width, self.depth, self.scale, self.gone, self.inner.size

            @property
            def size(self):
                return sizes.WIDTH, sizes.GONE

        class Inner:
            def __init__(self):
                self.size = 1
        """
    base = "class Base:\n    def __init__(self):\n        self.scale = 1\n"
    found = around(text, 13, base=base, sizes="WIDTH = 1\n")
    assert [(b.name, b.file, b.line) for b in found.names] == [
        ("self.x", "e.py", 12),
        ("self.width", "e.py", 9),
        ("self.depth", "e.py", 5),
        ("self.scale", "base.py", 3),
        ("self.gone", "e.py", 0),
        ("self.inner", "e.py", 9),
        ("self.inner.size", "e.py", 21),
    ]
    assert "self.gone" not in names(around(text, 13))  # its base may be a library's
    module = {
        (b.name, b.file, b.line) for b in around(text, 17, base=base, sizes="WIDTH = 1\n").names
    }
    assert module >= {("sizes.WIDTH", "sizes.py", 1), ("sizes.GONE", "sizes.py", 0)}


OBJECTS = """
    class Layer:
        def __call__(self, x):
            return self

        def __len__(self):
            return 1

    class Other(Layer):
        def forward(self, x):
            return x

        def step(self):
            return Layer()

    def make(kind: str) -> "Other":
        return kind

    def pick():
        return [Other(), Layer()]
    """


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ("Other().step()(1)", {"Other", "Other.step", "Layer.__call__"}),
        ("make('a').step()", {"make", "Other.step"}),
        ("pick()[0].step()", {"pick", "Other.step"}),
        ("a, b = pick(); b(1)", {"pick", "Layer.__call__"}),
        ("for a in pick(): a(1)", {"pick", "Layer.__call__"}),
        ("[a(1) for n, a in enumerate(pick())]", {"pick", "Layer.__call__"}),
        ("len(Layer())", {"Layer", "Layer.__len__"}),
        ("nn.Sequential(Layer(), nn.ReLU())(x)", {"Layer", "Layer.__call__"}),
        ("for b in nn.ModuleList([Other() for _ in x]): b.step()", {"Other", "Other.step"}),
        ("o = nn.DataParallel(Other()).to(d); o.step()", {"Other", "Other.step"}),
        ("f = partial(make, 'a'); f().step()", {"make", "Other.step"}),
        ("d = {'a': make}; d['a']().step()", {"make", "Other.step"}),
        ("run(make, key=pick)", {"make", "pick"}),
        ("(lambda o: o)(make)", {"make"}),
        ("x = make if y else pick; x('')", {"make", "pick"}),
        ("o: Other = load(); o.step()", {"Other.step"}),
        ("print(f'{make(1)}')", {"make"}),
    ],
)
def test_calls_are_resolved(line: str, called: set[str]) -> None:
    text = code(OBJECTS) + "\ndef main(x, y, d):\n    " + line + "\n"
    found = {c.callee for c in outline({"e.py": text}).calls if c.caller == "main"}
    assert found == called


def test_arguments_are_followed_into_functions() -> None:
    text = """
        class Net:
            def forward(self, x):
                return x

        def train(model, *, steps=1):
            model(steps)

        def run(call):
            call(1)

        def main():
            train(model=Net())
            run(train)

        main()
        """
    assert calls(text) == {
        "train>Net.forward@6",
        "run>train@9",
        "main>Net@12",
        "main>train@12",
        "main>run@13",
        "<module>>main@15",
    }


def test_special_methods_and_decorators() -> None:
    text = """
        def twice(f):
            def inner(x):
                return f(f(x))
            return inner

        class Bag:
            def __getitem__(self, n): return n
            def __iter__(self): yield 1
            def __enter__(self): return self
            def __exit__(self, *e): pass
            def __add__(self, o): return self
            @property
            def size(self): return 1
            @classmethod
            def new(cls): return cls()
            @staticmethod
            def zero(x): return x

        @twice
        def go(x):
            with Bag.new() as bag:
                return bag[0], bag + bag, bag.size, bag.zero(1), list(n for n in bag)

        go(1)
        """
    assert calls(text) == {
        "<module>>twice@19",
        "<module>>go@24",
        "<module>>twice.inner@24",
        "Bag.new>Bag@15",
        *(f"go>Bag.{name}@21" for name in ("new", "__enter__", "__exit__")),
        *(f"go>Bag.{n}@22" for n in ("__getitem__", "__add__", "size", "zero", "__iter__")),
    }


def test_imports_are_followed_through_packages() -> None:
    files = {
        "run.py": "from pkg import Net as N\nimport pkg.deep.ops as ops\n\nN().go()\nops.f()\n",
        "pkg/__init__.py": "from .net import *\nfrom . import deep\n",
        "pkg/net.py": "from .deep import ops\n\n\nclass Net:\n    def go(self):\n        ops.f()\n",
        "pkg/deep/__init__.py": "from ..net import Net\n",
        "pkg/deep/ops.py": "def f():\n    return deeper()\n\n\ndef deeper():\n    return 1\n",
    }
    found = {f"{c.caller}>{c.callee}@{c.file}" for c in outline(files).calls}
    assert found == {
        "<module>>Net@run.py",
        "<module>>Net.go@run.py",
        "<module>>f@run.py",
        "Net.go>f@pkg/net.py",
        "f>deeper@pkg/deep/ops.py",
    }


def shapes(text: str) -> list[str]:
    return [f"{s.name} = {s.shape}" for s in outline({"e.py": code(text)}).shapes]


def test_sizes_are_computed_where_the_text_fixes_them() -> None:
    text = """
        W, H = 28, 28
        SIZES = (64, 32)
        SIZES_OF = {"a": 1}
        STEPS = 1
        STEPS += 1

        class Config:
            width = 16

            def __init__(self):
                self.depth = 2 ** 3

        cfg = Config()
        a = nn.Linear(W * H, SIZES[0] + cfg.width)
        b = np.zeros((STEPS, cfg.depth // 2, -1), dtype=x)
        c = a.reshape(-1, W).permute(0, n)
        d = torch.tensor([[1, 2, 3], [4, 5, 6]])
        e = np.array([[1], [2, 3]])
        np.random.normal(0.0, 1.0, size=shape)
        text.split(1)
        """
    assert shapes(text) == [
        "a = Linear(784, 80)",
        "b = zeros((STEPS, 4, -1))",
        "reshape = reshape(-1, 28)",
        "c = permute(0, n)",
        "d = tensor of shape (2, 3)",
        "normal = normal(0.0, 1.0, size=shape)",
    ]


def test_a_parameter_has_a_value_where_all_calls_agree() -> None:
    text = """
        def layer(inputs, outputs=10):
            return Linear(inputs, outputs)

        class Pair:
            def __init__(self, size):
                self.one = Linear(size, size)

        layer(3)
        layer(inputs=3)
        Pair(4)
        Pair(5)
        """
    assert shapes(text) == [
        "Linear = Linear(3, 10)",
        "self.one = Linear(size, size)",
        "Pair = Pair(4)",
        "Pair = Pair(5)",
    ]


def test_a_long_definition_is_shown_in_part() -> None:
    body = "".join(f"    x = {n}\n" for n in range(300))
    found = around(f"def f():\n{body}    return 1 / 0\n", 150)
    (definition,) = found.definitions
    assert (definition.first, definition.last) == (1, 302)
    lines = definition.code.split("\n")
    assert lines[0] == "def f():"
    assert "    x = 148" in lines
    assert lines.count("…") == 2
    assert len(lines) < 50


def test_a_frame_in_a_header_or_a_call_of_it() -> None:
    text = "def f(x=1 / 0):\n    return x\n\nf()\n"
    (at_definition,) = around(text, 1, "<module>").definitions
    assert (at_definition.name, at_definition.first, at_definition.last) == ("<module>", 1, 1)
    (at_call,) = around(text, 1, "f").definitions
    assert (at_call.name, at_call.last) == ("f", 2)


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("def f(a, b:\n    return a\n\ndef g():\n    f(1)\n", 1, "f"),
        ("class A:\n    def f(self):\n        x = [1, 2\n        return x\n", 3, "A.f"),
        ("def f():\n    if True\n        return 1\n    return 2\n", 2, "f"),
        ("def f():\n    print 'x'\n", 2, "f"),
        ('def f():\n    x = """abc\n    return x\n', 2, "f"),
        ("def f():\n\treturn 1\n        return 2\n", 3, "f"),
    ],
)
def test_files_that_do_not_parse_give_their_definitions(text: str, line: int, name: str) -> None:
    found = around(text, line, "<module>")
    assert [d.name for d in found.definitions][-1] in (name, "<module>")
    assert name in [d.name for d in outline({"e.py": text}).definitions]


def test_a_file_that_is_beyond_repair_is_read_as_text() -> None:
    broken = "".join(f"x{n} = (]\n" for n in range(40))
    text = f"{broken}class A:\n    def f(self,\n          b):\n        return (]\n\n\ny = 1\n"
    found = [(d.name, d.kind, d.first, d.last) for d in outline({"e.py": text}).definitions]
    assert found == [("A", "class", 41, 44), ("A.f", "method", 42, 44)]
    assert [d.name for d in around(text, 44).definitions] == ["A.f"]
