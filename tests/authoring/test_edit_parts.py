"""Parts: what of a reply is taken for one function, class or constant."""

import pytest

from hpcscientist.authoring.edits.parts import head, is_writable, outermost, source
from hpcscientist.authoring.edits.units import EditUnit, units_of

FILE = """import math

RATE = 0.1  # of a step
SIZES = (
    1,
    2,
)
BOUND: Annotated[int, Field(gt=0)] = 3
LATER: int


@cached
def step(
    x, rate
):
    \"\"\"Nothing is done.\"\"\"
    return x


def same(x): return x


def outer():
    @cached
    def inner():
        return 1
    return inner


class Net(Base):
    size = 3

    def forward(self, x):
        return x


if __name__ == "__main__":
    print(step(1, RATE))
"""
UNITS = {unit.name: unit for unit in units_of("a.py", FILE)}
KNOWN = frozenset(UNITS)


def of(name: str) -> EditUnit:
    return UNITS[name]


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("RATE", "RATE ="),
        ("SIZES", "SIZES ="),
        ("BOUND", "BOUND: Annotated[int, Field(gt=0)] ="),
        ("LATER", "LATER: int"),
        ("same", "def same(x):"),
        ("outer", "def outer():\n"),
        ("step", "@cached\ndef step(\n    x, rate\n):\n"),
        ("Net", "class Net(Base):\n"),
        ("Net.forward", "def forward(self, x):\n"),
    ],
)
def test_what_others_use_of_a_part_stays(name: str, begins: str) -> None:
    assert head(of(name), {"a.py": FILE}) == begins


def test_what_has_no_name_of_its_own_is_no_part() -> None:
    assert [name for name in UNITS if is_writable(of(name))] == [
        "RATE",
        "SIZES",
        "BOUND",
        "LATER",
        "step",
        "same",
        "outer",
        "Net",
        "Net.forward",
    ]


def test_a_text_that_stands_further_left_than_its_method_is_no_obstacle() -> None:
    file = 'class A:\n    def f(self):\n        return """\nleft\n"""\n'
    (unit,) = (unit for unit in units_of("b.py", file) if unit.name == "A.f")
    assert head(unit, {"b.py": file}).strip() == "def f(self):"


def taken(name: str, reply: str) -> str:
    own, beside = source(reply, head(of(name), {"a.py": FILE}), name, KNOWN)
    return "".join((own, *beside))


def test_a_constant_ends_with_its_value() -> None:
    assert taken("RATE", " 0.3\n\n# Then\nimport os\ndef main(): ...\n```") == "RATE = 0.3\n"
    assert taken("SIZES", " (\n    3,\n)\n\nRATE = 9\n```") == "SIZES = (\n    3,\n)\n"


def test_of_the_rest_only_what_is_new_and_used_is_taken() -> None:
    reply = """    return halved(x, HALF)

# Helpers
import os
import numpy as np
HALF = 0.5
RATE = 7

def halved(x, by):
    return np.asarray(x) * by

def step(x):
    pass

def unused():
    return 1
```
That is all."""
    begun = "@cached\ndef step(\n    x, rate\n):\n"
    code = taken("step", reply)
    assert code.startswith(begun + "    return halved(x, HALF)")
    assert "import numpy as np" in code
    assert "HALF = 0.5" in code
    assert "def halved" in code
    for other in ("RATE", "import os", "unused", "pass", "That"):
        assert other not in code


def test_a_method_brings_methods_and_its_file_the_rest() -> None:
    reply = """    return self.scaled(x) * half(x)

def scaled(self, x):
    return x * self.size

def half(x):
    return x / 2
```"""
    begun = "def forward(self, x):\n"
    own, beside = source(reply, begun, "Net.forward", KNOWN)
    assert "def scaled(self, x)" in own
    assert beside == ("def half(x):\n    return x / 2\n",)
    assert outermost("a.py: Net.forward") == "a.py: Net"
    assert outermost("a.py: step") == "a.py: step"


def test_a_whole_block_of_a_server_that_takes_no_beginning_is_read_too() -> None:
    reply = "Here it is:\n```python\nRATE = 0.4\n```\nDone."
    assert taken("RATE", reply) == "RATE = 0.4\n"


def test_code_that_cannot_be_read_is_left_to_who_applies_it() -> None:
    assert (
        taken("step", "    return (x\n```")
        == "@cached\ndef step(\n    x, rate\n):\n    return (x\n"
    )
