"""The symbol index: names, lines and signatures, of code that nobody vouches for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.literature.sources import code
from hpcscientist.literature.sources.base import Trouble
from hpcscientist.records.literature import Symbol

SOURCE = '''"""A module."""
import os


@decorated(
    1
)
class Net(Base, metaclass=M):
    """A net.

    It works.
    """

    def forward(self, x: "Tensor", *, deep: bool = True) -> dict[str, int]:
        """Go forward."""
        def inner(y): return y
        return inner(x)

    class Part:
        async def run(self): ...

if os.name:
    try:
        def chosen(a, /, b=1, *args, **kwargs): pass
    except ImportError:
        def other(): pass
match 1:
    case 1:
        def matched(): pass
'''


def test_symbols_with_names_lines_and_signatures() -> None:
    found = [s for s in code.symbols_of(SOURCE, "repo", "net.py") if isinstance(s, Symbol)]
    assert [(s.name, s.kind, s.first_line, s.last_line) for s in found] == [
        ("Net", "class", 5, 20),
        ("Net.forward", "method", 14, 17),
        ("Net.forward.inner", "function", 16, 16),
        ("Net.Part", "class", 19, 20),
        ("Net.Part.run", "method", 20, 20),
        ("chosen", "function", 24, 24),
        ("other", "function", 26, 26),
        ("matched", "function", 29, 29),
    ]
    assert found[0].signature == "class Net(Base, metaclass=M)"
    assert found[0].docstring == "A net.\n\nIt works."
    assert found[1].signature == (
        "def forward(self, x: 'Tensor', *, deep: bool=True) -> dict[str, int]"
    )
    assert found[1].code == "\n".join(SOURCE.split("\n")[13:17])
    assert found[4].signature == "async def run(self)"
    assert found[1].symbol_id == "repo/net.py:14-17"


def test_a_repository_with_everything(tmp_path: Path) -> None:
    files = {
        "b.py": "def b(): pass",
        "a/a.py": "def a(): pass",
        "a/old.py": "print 'python 2'",
        "a/latin.py": "# -*- coding: latin-1 -*-\ndef gr\xfc\xdfe(): pass",
        "a/kernel.cu": "__global__ void f() {}",
        "a/x.jl": "f(x) = x",
        ".hidden/h.py": "def h(): pass",
        "sub/.git/HEAD": "",
        "sub/s.py": "def s(): pass",
        "venv/pyvenv.cfg": "",
        "venv/v.py": "def v(): pass",
        "empty.py": "",
        "binary.py": "\x00\x01\x02",
        "big.py": "x = 1\n" * 400_000,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    (tmp_path / "out.py").symlink_to("/etc/passwd")
    cells = [
        {"cell_type": "markdown", "source": "def m(): pass"},
        {
            "cell_type": "code",
            "source": ["%matplotlib inline\n", "!ls\n", "def c():\n", "    pass"],
        },
        {"cell_type": "code", "source": "broken("},
    ]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    items = list(code.read(tmp_path, "repo"))
    symbols = [i for i in items if isinstance(i, Symbol)]
    assert [(s.file, s.name, s.first_line) for s in symbols] == [
        ("b.py", "b", 1),
        ("n.ipynb#2", "c", 3),
        ("a/a.py", "a", 1),
        ("a/latin.py", "grüße", 2),
    ]
    assert {s.repository for s in symbols} == {"repo"}
    troubles = {t.origin: t.reason for t in items if isinstance(t, Trouble)}
    assert troubles["repo/a/old.py:1"].startswith("no Python 3: Missing parentheses")
    assert "split it" in troubles["repo/big.py"]
    assert re.match("1 cells .*Python", troubles["repo/n.ipynb"])
    assert troubles["repo"].endswith(": 1 CUDA, 1 Julia")


@pytest.mark.parametrize(
    "source",
    [
        "(" * 10_000,
        "-" * 50_000 + "1",
        "x = " + "1+" * 50_000 + "1",
        "x" + ".a" * 50_000,
        "def f(): pass\n" + "[" * 150 + "]" * 150,
        "class A:\n" + "".join(" " * n + "class A:\n" for n in range(1, 90)) + " " * 90 + "pass",
        "def f(a=" + "-" * 3000 + "1): pass",
        "\x00def f(): pass",
        "s = '\\d'\ndef f(): pass",
        "\ufeffdef f(): pass",
        "def f():\n\tpass\n        pass",
    ],
)
def test_code_that_means_harm_harms_nobody(source: str) -> None:
    for item in code.symbols_of(source, "r", "f.py"):
        assert isinstance(item, Symbol | Trouble)


@given(st.text(st.sampled_from("def fclass():\n @=x'\\[]{}#0\t\r\f"), max_size=120))
def test_no_text_crashes_it(source: str) -> None:
    lines = source.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 3
    for item in code.symbols_of(f"def first():\n  pass\n{source}", "r", "f.py"):
        if isinstance(item, Symbol):
            assert 1 <= item.first_line <= item.last_line <= lines


def test_long_code_is_cut_and_says_so() -> None:
    source = "def f():\n" + "    x = 1\n" * 1000
    (symbol,) = code.symbols_of(source, "r", "f.py")
    assert isinstance(symbol, Symbol)
    assert symbol.last_line == 1001
    assert symbol.code.endswith("    x = 1\n# … 801 more lines")
    (symbol,) = code.symbols_of(f"def f(): return '{'x' * 20_000}'", "r", "f.py")
    assert isinstance(symbol, Symbol)
    assert symbol.code == "# … 1 more lines"
