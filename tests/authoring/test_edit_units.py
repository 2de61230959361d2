"""Edits by unit: functions, classes, methods, constants and imports, by name."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from newer_python import NEWER

from hpcscientist.authoring.edits import EditError, apply
from hpcscientist.authoring.edits.units import (
    EditUnit,
    find_unit,
    unit_at,
    unit_like,
    units_of,
)
from hpcscientist.records.authoring import Edit, UnitEdit

FILE = '''"""What it does."""

import json
import math
from pathlib import Path

RATE = 0.1  # of a step
STEPS = 10


def start(size):
    """Return the first state."""
    return [0.0] * size


@cache
def step(state):
    return [s - RATE for s in state]


class Net:
    def __init__(self):
        self.state = start(4)

    def forward(self, x):
        return x


for name in ("a", "b"):
    print(name)

if __name__ == "__main__":
    print(step(start(3)))
'''
NAME = "experiment.py"
UNITS = units_of(NAME, FILE)
NAMES = [unit.name for unit in UNITS]


def edited(unit: str, code: str, action: str = "replace", text: str = FILE) -> str:
    edit = UnitEdit.model_validate({"unit": unit, "code": code, "action": action})
    found = apply({NAME: text}, [edit], [NAME])
    assert isinstance(found, dict), str(found)
    return found[NAME]


def refused(unit: str, code: str, action: str = "replace") -> str:
    edit = UnitEdit.model_validate({"unit": unit, "code": code, "action": action})
    found = apply({NAME: FILE}, [edit], [NAME])
    assert isinstance(found, EditError)
    return found.reason


def test_the_units_of_a_file_are_what_it_names() -> None:
    assert [
        *("imports", "settings", "RATE", "STEPS", "start", "step"),
        *("Net", "Net.__init__", "Net.forward", "lines 29-30", "__main__"),
    ] == NAMES
    lines = {unit.name: (unit.first, unit.last, unit.indent) for unit in UNITS}
    assert lines["imports"] == (3, 5, "")
    assert lines["settings"] == (7, 8, "")
    assert lines["step"] == (16, 18, "")  # with its decorator
    assert lines["Net.forward"] == (25, 26, "    ")


@pytest.mark.parametrize("text", [None, "", "def (:\n", "a: 1\n"])
def test_what_is_no_python_is_one_unit(text: str | None) -> None:
    name = "settings.yaml" if text == "a: 1\n" else NAME
    assert [unit.label for unit in units_of(name, text)] == [f"{name}: whole file"]


def test_a_line_of_two_statements_is_no_unit() -> None:
    assert [unit.name for unit in units_of(NAME, "a = 1; b = 2\nc = 3\n")] == [
        "imports",
        "settings",
        "c",
    ]


def test_of_what_is_defined_twice_the_last_counts() -> None:
    text = "def f():\n    return 1\n\n\ndef f():\n    return 2\n"
    assert edited(f"{NAME}: f", "def f():\n    return 3", text=text).count("return 1") == 1
    assert "return 2" not in edited(f"{NAME}: f", "def f():\n    return 3", text=text)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        (f"{NAME}: step", "step"),
        (f"{NAME}:  step", "step"),
        (f"{NAME}::step", "step"),
        ("step", "step"),
        ("def step(state):", "step"),
        ("`step`", "step"),
        ("step()", "step"),
        ("class Net", "Net"),
        ("Net.forward", "Net.forward"),
        ("forward", "Net.forward"),
        ("other.py: step", None),
        ("nowhere", None),
    ],
)
def test_a_label_means_one_unit_or_none(label: str, name: str | None) -> None:
    found = find_unit(label, UNITS)
    assert (found and found.name) == name


def test_a_bare_name_in_two_files_means_neither() -> None:
    both = (*UNITS, *units_of("other.py", FILE))
    assert find_unit("step", both) is None
    assert find_unit("other.py: step", both) == next(u for u in both if u.label == "other.py: step")


def test_a_function_is_replaced_and_all_else_stays() -> None:
    new = "def start(size):\n    return [1.0] * size"
    assert edited(f"{NAME}: start", new) == FILE.replace(
        'def start(size):\n    """Return the first state."""\n    return [0.0] * size', new
    )


@pytest.mark.parametrize("wrap", ["```python\n{}\n```", "{}", "\n\n{}\n", "<code>\n{}\n</code>"])
def test_what_models_put_around_code_is_undone(wrap: str) -> None:
    new = "def start(size):\n    return []"
    assert new in edited(f"{NAME}: start", wrap.format(new))
    assert "```" not in edited(f"{NAME}: start", wrap.format(new))


def test_what_comes_with_a_function_finds_its_place() -> None:
    """Imports to the imports, known names to their places, the rest beside it."""
    text = edited(
        f"{NAME}: start",
        "import math\nimport random\n\nRATE = 0.2\nWIDTH = 3\n\n\ndef noise():\n    return "
        "random.random()\n\n\ndef start(size):\n    return [noise()] * size\n",
    )
    names = [unit.name for unit in units_of(NAME, text)]
    assert names.index("WIDTH") < names.index("start") < names.index("noise") < names.index("step")
    assert text.count("import math") == text.count("import random") == 1
    assert "RATE = 0.2" in text
    assert "RATE = 0.1" not in text
    compile(text, NAME, "exec")


def test_what_stands_for_the_rest_of_the_file_is_nothing() -> None:
    new = "def start(size):\n    return [1.0] * size"
    code = f"import math\n\n# ... existing code ...\n\n{new}\n\n# rest unchanged\n"
    assert edited(f"{NAME}: start", code) == edited(f"{NAME}: start", new)


def test_a_constant_may_be_given_by_its_value_alone() -> None:
    assert "RATE = 0.5\n" in edited(f"{NAME}: RATE", "0.5")
    assert "RATE = 0.5\n" in edited("RATE", "RATE = 0.5")


def test_settings_change_those_that_are_given() -> None:
    text = edited(f"{NAME}: settings", "STEPS = 20\nWIDTH = 3")
    assert "RATE = 0.1  # of a step\nSTEPS = 20\nWIDTH = 3\n" in text


def test_a_constant_that_calls_a_function_comes_after_it() -> None:
    text = edited(f"{NAME}: start", "def start(size):\n    return []\n\n\nFIRST = start(2)\n")
    assert text.index("FIRST =") > text.index("def start")


def test_imports_are_added_once_and_the_future_first() -> None:
    used = "import json\nimport random\nfrom __future__ import annotations\nFIRST = random.random()"
    text = edited(f"{NAME}: imports", used)
    tree = ast.parse(text)
    found = [
        ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert found[0] == "from __future__ import annotations"
    assert sorted(found[1:]) == [
        *("from pathlib import Path", "import json", "import math", "import random")
    ]
    compile(text, NAME, "exec")
    assert edited("imports", "import a", text="x = a\n").startswith("import a\n")


def test_an_import_of_which_nothing_is_used_is_left_out() -> None:
    """By the end of all edits: the first may bring what the second uses."""
    edits = [
        UnitEdit(
            unit="imports", code="import torch\nimport random\nfrom os import *\n", action="add"
        ),
        UnitEdit(unit="start", code="import numpy as np\n\ndef start(n):\n    return [random]\n"),
    ]
    found = apply({NAME: FILE}, edits, [NAME])
    assert isinstance(found, dict)
    assert "import random\nfrom os import *\n" in found[NAME]
    assert "torch" not in found[NAME]
    assert "numpy" not in found[NAME]
    assert "import json\nimport math\n" in found[NAME]  # what the file has stays


def test_a_method_is_replaced_within_its_class() -> None:
    new = "def forward(self, x):\n    return self.twice(x)\n\ndef twice(self, x):\n    return 2 * x"
    wrapped = "class Net:\n" + "\n".join(f"    {line}" if line else "" for line in new.split("\n"))
    for code in (new, wrapped):
        tree = ast.parse(edited(f"{NAME}: Net.forward", code))
        (net,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
        methods = [node.name for node in net.body if isinstance(node, ast.FunctionDef)]
        assert methods == ["__init__", "forward", "twice"]


def test_a_method_is_indented_as_its_file_is_and_its_strings_stay() -> None:
    old = "class A:\n\tdef f(self):\n\t\treturn 1\n\n\tdef g(self):\n\t\treturn 2\n"
    new = 'def f(self):\n\t"""Say it.\n\n\tTwice."""\n\treturn """a\nb\n"""\n'
    text = edited(f"{NAME}: A.f", new, text=old)
    names: dict[str, type] = {}
    exec(compile(text, NAME, "exec"), names)
    assert names["A"]().f() == "a\nb\n"
    assert "\n\t\tTwice." in text


def test_what_has_no_name_is_replaced_as_it_is() -> None:
    text = edited(f"{NAME}: lines 29-30", 'for name in "abc":\n    print(name)\n\nprint("end")')
    assert 'for name in "abc":' in text
    assert 'for name in ("a", "b")' not in text


def test_new_code_comes_after_the_unit() -> None:
    text = edited(f"{NAME}: start", "def stop():\n    pass", action="add")
    names = [unit.name for unit in units_of(NAME, text)]
    assert names.index("stop") == names.index("start") + 1
    assert "return [0.0] * size" in text


def test_code_for_a_newer_python_stands_where_it_was_meant() -> None:
    code = f"def start(size):\n    return f'{{size}}'\n\n\n{NEWER[0]}"
    assert NEWER[0] in edited(f"{NAME}: start", code)


def test_settings_for_a_newer_python_take_nothing_between_them_away() -> None:
    text = "A = 1\n\n\ndef f():\n    return A\n\n\nB = 2\n"
    edit = UnitEdit(unit=f"{NAME}: settings", code=f"A = 3\n{NEWER[2]}")
    found = apply({NAME: text}, [edit], [NAME])  # refused where Python cannot read the code
    assert isinstance(found, EditError) or "def f():" in found[NAME]


def test_a_docstring_that_is_half_closed_is_closed() -> None:
    code = 'def start(size):\n    """Return the state.""\n    return []'
    assert '"""Return the state."""\n' in edited(f"{NAME}: start", code)


@pytest.mark.parametrize(
    ("unit", "code"),
    [
        ("nowhere", "x = 1"),
        ("other.py: start", "def start(size):\n    return 1"),
        ("start", ""),
        ("start", "   \n"),
        ("start", "x = [0.0] * size\nreturn x"),
        ("start", "def start(size):\n    # ... existing code ...\n    return 1"),
        ("start", "x = '\ud800'"),
        ("start", "def start(size:\n    return"),
    ],
)
def test_what_names_no_unit_or_is_no_whole_one_is_refused(unit: str, code: str) -> None:
    assert refused(unit, code)


def test_a_file_that_is_not_there_is_made() -> None:
    edit = UnitEdit(unit="net.py: whole file", code="X = 1\n")
    assert apply({NAME: FILE}, [edit], [NAME, "net.py"]) == {NAME: FILE, "net.py": "X = 1\n"}


def test_both_forms_may_stand_in_one_reply() -> None:
    edits = [
        UnitEdit(unit="STEPS", code="20"),
        Edit(file=NAME, search="STEPS = 20", replace="STEPS = 30"),
    ]
    found = apply({NAME: FILE}, edits, [NAME])
    assert isinstance(found, dict)
    assert "STEPS = 30" in found[NAME]


def test_the_unit_of_a_line_and_of_a_text() -> None:
    assert unit_at(26, NAME, UNITS) == next(u for u in UNITS if u.name == "Net.forward")
    assert unit_at(6, NAME, UNITS) is None
    files = {NAME: FILE}
    like = unit_like("    return [s - RATE for s in states]\n@cache", NAME, UNITS, files)
    assert like is not None
    assert like.name == "step"
    assert unit_like("nothing of it", NAME, UNITS, files) is None


SOURCES = st.sampled_from(
    [
        "def start(size):\n    return 0",
        "RATE = 3",
        "import os\nHOME = os.curdir",
        "class Net:\n    pass",
        "x = 2",
    ]
)


@settings(deadline=None)
@given(st.sampled_from(NAMES), st.lists(SOURCES, min_size=1, unique=True), st.booleans())
def test_whatever_code_is_given_the_file_compiles_and_has_it(
    unit: str, codes: list[str], adds: bool
) -> None:
    edit = UnitEdit(
        unit=f"{NAME}: {unit}", code="\n\n\n".join(codes), action="add" if adds else "replace"
    )
    found = apply({NAME: FILE}, [edit], [NAME])
    if isinstance(found, EditError):
        return
    tree = ast.dump(ast.parse(found[NAME]))
    for code in codes:
        assert ast.dump(ast.parse(code).body[0]) in tree


def test_a_text_shows_its_own_lines_alone() -> None:
    assert EditUnit(NAME, "Net.forward", 25, 26, "    ").text({NAME: FILE}) == (
        "def forward(self, x):\n    return x"
    )
