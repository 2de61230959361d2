from __future__ import annotations

import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.authoring.structure import LocalStructure, local_structure, outline
from hpcscientist.authoring.tracebacks.log import Frame

Places = list[tuple[str, int, str]]


def at(*places: tuple[str, int, str]) -> list[Frame]:
    return [
        Frame(file=file, line=line, function=function, code="") for file, line, function in places
    ]


def e(line: int, function: str = "<module>") -> list[Frame]:
    return at(("e.py", line, function))


def code(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def definitions(found: LocalStructure) -> list[tuple[str, str, int, int]]:
    return [(d.file, d.name, d.first, d.last) for d in found.definitions]


def calls(found: LocalStructure) -> list[tuple[str, str, str, int]]:
    return [(c.caller, c.callee, c.file, c.line) for c in found.calls]


def names(found: LocalStructure) -> list[tuple[str, str, int]]:
    return [(b.name, b.file, b.line) for b in found.names]


def shapes(found: LocalStructure) -> list[tuple[str, int, str]]:
    return [(s.name, s.line, s.shape) for s in found.shapes]


NET = {
    "experiment.py": code(
        """
        import torch
        from model import Net
        from sizes import INPUTS

        BATCH = 32


        def batch():
            return torch.zeros(BATCH, INPUTS * 2)


        def main():
            net = Net(hidden=64)
            x = batch()
            return net(x)


        main()
        """
    ),
    "model.py": code(
        """
        from torch import nn
        from sizes import INPUTS


        class Encoder(nn.Module):
            def __init__(self, inputs, outputs):
                super().__init__()
                self.layer = nn.Linear(inputs, outputs)

            def forward(self, x):
                return self.layer(x)


        class Net(nn.Module):
            def __init__(self, hidden, classes=10):
                super().__init__()
                self.encoder = Encoder(INPUTS, hidden)
                self.head = nn.Linear(2 * hidden, classes)

            def forward(self, x):
                features = self.encoder(x)
                return self.head(features)
        """
    ),
    "sizes.py": "INPUTS = 784\n",
}


def test_what_nested_modules_hide() -> None:
    found = local_structure(
        NET,
        at(
            ("experiment.py", 18, "<module>"),
            ("experiment.py", 15, "main"),
            ("model.py", 22, "forward"),
        ),
    )
    assert definitions(found) == [
        ("experiment.py", "<module>", 18, 18),
        ("experiment.py", "main", 12, 15),
        ("model.py", "Net.forward", 20, 22),
        ("model.py", "Net.__init__", 15, 18),
        ("model.py", "Encoder.forward", 10, 11),
        ("model.py", "Encoder.__init__", 6, 8),
        ("experiment.py", "batch", 8, 9),
    ]
    assert calls(found) == [
        ("main", "Net.__init__", "experiment.py", 13),
        ("main", "batch", "experiment.py", 14),
        ("main", "Net.forward", "experiment.py", 15),
        ("<module>", "main", "experiment.py", 18),
        ("Net.__init__", "Encoder.__init__", "model.py", 17),
        ("Net.forward", "Encoder.forward", "model.py", 21),
    ]
    assert names(found) == [
        ("main", "experiment.py", 12),
        ("net", "experiment.py", 13),
        ("x", "experiment.py", 14),
        ("self.head", "model.py", 18),
        ("features", "model.py", 21),
    ]
    assert shapes(found) == [
        ("zeros", 9, "zeros(32, 1568)"),
        ("net", 13, "Net(hidden=64)"),
        ("self.layer", 8, "Linear(784, 64)"),
        ("self.encoder", 17, "Encoder(784, 64)"),
        ("self.head", 18, "Linear(128, 10)"),
    ]
    assert found.definitions[2].code == (
        "    def forward(self, x):\n        features = self.encoder(x)\n"
        "        return self.head(features)"
    )
    assert found.definitions[5].signature == "def __init__(self, inputs, outputs):"


PIECES = st.sampled_from(
    [
        "def f(x):\n",
        "class A(B):\n",
        "    def g(self, y=1):\n",
        "        return self.x\n",
        "    x = f(A().g())\n",
        "x = [f(y) for y in x]\n",
        "from e import *\n",
        "import e as x\n",
        "if x:\n",
        "else:\n",
        "    pass\n",
        "try:\n",
        "except E as e:\n",
        "match x:\n",
        "    case A(y):\n",
        "(\n",
        '"""\n',
        "global x\n",
        "lambda: (yield)\n",
        "x, (y, *z) = y, x\n",
        "\t",
        "\r",
        "\0",
        "\x0c",
        "@f\n",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=8), max_size=14).map("".join)


@settings(max_examples=150)
@given(
    TEXTS,
    TEXTS,
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from(["f", "<module>"])), max_size=3),
)
def test_no_text_does_harm(one: str, other: str, places: list[tuple[int, str]]) -> None:
    files = {"e.py": one, "other/e.py": other, "notes.txt": one}
    frames = at(*(("e.py", line, function) for line, function in places))
    for found in (local_structure(files, frames), outline(files)):
        for place in (*found.definitions, *found.calls, *found.names, *found.shapes):
            lines = files[place.file].replace("\r\n", "\n").replace("\r", "\n").split("\n")
            last = getattr(place, "last", getattr(place, "line", 0))
            assert getattr(place, "first", 0) <= last <= len(lines)
    again = local_structure(dict(reversed(files.items())), frames)
    assert again == local_structure(files, frames)


def test_frames_that_are_nowhere_give_nothing() -> None:
    assert not local_structure(NET, [])
    assert not local_structure(NET, at(("gone.py", 1, "f"), ("sizes.py", 99, "f")))
    assert not local_structure({}, e(1))


@pytest.mark.parametrize(
    "text", ["x = " + "(" * 500, "x = " + "-" * 5000 + "1", "x = 1" + "+1" * 5000]
)
def test_deep_nesting_is_no_trouble(text: str) -> None:
    files = {"e.py": f"def f():\n    return 1\n\n\n{text}\n"}
    assert [d.name for d in outline(files).definitions] == ["f"]
    local_structure(files, e(5))


def test_what_branches_out_ends() -> None:
    text = "a0 = f\n" + "".join(f"a{n + 1} = (a{n}, a{n})\n" for n in range(60)) + "a60()\n"
    found = local_structure({"e.py": text}, e(62))
    assert [(name.name, name.line) for name in found.names] == [("a60", 61)]
    assert found.calls == ()
