import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from newer_python import NEWER

from hpcscientist.errors import RecipeError
from hpcscientist.recipe.knobs import constants, misfit, only_settings, set_constants
from hpcscientist.recipe.schema import Knob

SOURCE = '''"""Größe."""
RATE = 0.1  # a comment that stays
NAME: str = "tanh"; FLAG = False
NEGATIVE = -3
DERIVED = RATE * 2
LIST = [1, 2]


def f():
    RATE = 5
    return RATE
'''


def test_constants_are_module_level_literals():
    assert constants(SOURCE) == {
        "RATE": (2, 0.1),
        "NAME": (3, "tanh"),
        "FLAG": (3, False),
        "NEGATIVE": (4, -3),
    }


@pytest.mark.parametrize("newer", NEWER)
def test_constants_of_code_for_a_newer_python(newer):
    source = f"RATE = 0.1\n{newer}\nSTEPS = 'ä'; LAST = 3\n"
    known = constants(source)
    assert (known["RATE"], known["LAST"][1]) == ((1, 0.1), 3)
    changed = set_constants(source, {"RATE": 0.2, "LAST": 4})
    assert changed == source.replace("0.1", "0.2").replace("LAST = 3", "LAST = 4")


def test_setting_leaves_all_other_characters():
    changed = set_constants(SOURCE, {"RATE": 0.25, "FLAG": True, "NAME": "relu", "NEGATIVE": 7})
    assert changed == SOURCE.replace("RATE = 0.1 ", "RATE = 0.25 ").replace(
        '"tanh"', "'relu'"
    ).replace("False", "True").replace("-3", "7")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_are_kept(end):
    source = f'ä = "ö"; A = 1{end}B = 2{end}C = """x{end}y"""{end}D = 4{end}'
    assert set_constants(source, {"A": 10, "B": 20, "D": 40}) == (
        f'ä = "ö"; A = 10{end}B = 20{end}C = """x{end}y"""{end}D = 40{end}'
    )


def test_every_assignment_of_a_name_is_set():
    assert set_constants("A = 1\nA = 2\n", {"A": 3}) == "A = 3\nA = 3\n"


def test_a_missing_constant_is_an_error():
    with pytest.raises(RecipeError, match=r"DERIVED.*add a line"):
        set_constants(SOURCE, {"DERIVED": 1})


def test_source_that_does_not_parse_names_the_line():
    with pytest.raises(RecipeError) as caught:
        constants("A = 1\nB = = 2\n")
    assert caught.value.line == 2
    with pytest.raises(RecipeError, match="valid Python"):
        constants("A = 1\0")


def test_infinite_values_are_refused():
    with pytest.raises(RecipeError, match="finite"):
        set_constants("A = 1.0\n", {"A": float("inf")})


values = st.one_of(
    st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)


@given(first=values, second=values, old=values)
def test_what_is_set_is_read_back(first, second, old):
    source = f"A = {old!r}  # ä\nB = {old!r}\n"
    changed = set_constants(source, {"A": first, "B": second})
    assert {name: value for name, (_, value) in constants(changed).items()} == {
        "A": first,
        "B": second,
    }
    ast.parse(changed)


@pytest.mark.parametrize(
    ("knob", "value", "fits"),
    [
        (Knob(name="A", type="int", low=1, high=3), 3, True),
        (Knob(name="A", type="int", low=1, high=3), 2.0, False),
        (Knob(name="A", type="int", low=1, high=3), True, False),
        (Knob(name="A", type="float", low=0, high=1), 1, True),
        (Knob(name="A", type="float", low=0, high=1), 1.01, False),
        (Knob(name="A", type="float", low=0, high=1), "x", False),
        (Knob(name="A", type="choice", choices=(False, True)), True, True),
        (Knob(name="A", type="choice", choices=(False, True)), 1, False),
        (Knob(name="A", type="choice", choices=("a", "b")), "c", False),
    ],
)
def test_misfit(knob, value, fits):
    assert (misfit(knob, value) is None) == fits


RATE = Knob(name="RATE", type="float", low=0.0, high=1.0)
NAME = Knob(name="NAME", type="choice", choices=("tanh", "relu"))
FLAG = Knob(name="FLAG", type="choice", choices=(True, False))


@pytest.mark.parametrize(
    ("change", "knobs"),
    [
        (("RATE = 0.1", "RATE = 0.2"), {"RATE": 0.2}),
        (("RATE = 0.1  # a comment that stays", "RATE = 1e-3"), {"RATE": 0.001}),
        (('"tanh"', "'relu'"), {"NAME": "relu"}),
        (("FLAG = False", "FLAG = True"), {"FLAG": True}),
        (("FLAG = False", "FLAG = 0"), {"FLAG": 0}),  # is printed otherwise
        (("RATE = 0.1", '"""A docstring."""\n\nRATE   = 0.2'), {}),  # a statement
        (('"""Größe."""', '"""Another."""'), {}),  # no value differs
        (("NEGATIVE = -3", "NEGATIVE = -4"), {}),  # no knob
        (("RATE = 0.1", "RATE = 0.1 * 2"), {}),
        (("    RATE = 5", "    RATE = 6"), {}),
        (("return RATE", "return RATE + 1"), {}),
        (("RATE = 0.1", "RATE = (0.1"), {}),
        (("RATE = 0.1", "RATE = 0.1\nRATE = 0.2"), {}),
        (("RATE = 0.1", "RATE = 0.3\nNEW = 1"), {}),
        (("RATE", "SPEED"), {}),
        (("", ""), {}),
    ],
)
def test_a_setting_of_knobs_is_told_from_other_changes(change, knobs):
    changed = SOURCE.replace(*change) if change[0] else SOURCE
    files, own = {"experiment.py": changed}, {"experiment.py": SOURCE}
    assert only_settings(own, files, [RATE, NAME, FLAG]) == knobs
    assert only_settings(own, {**files, "new.py": ""}, [RATE, NAME, FLAG]) == {}
    assert only_settings({**own, "a.txt": "1"}, {**files, "a.txt": "2"}, [RATE, NAME, FLAG]) == {}


def test_settings_of_several_files_are_found_and_docstrings_do_not_count():
    model = RATE.model_copy(update={"name": "UNITS", "file": "model.py"})
    own = {"experiment.py": SOURCE, "model.py": "UNITS = 8\n"}
    files = {
        "experiment.py": SOURCE.replace("Größe", "Size").replace("0.1", "0.5"),
        "model.py": "# wider\nUNITS = 16\n",
    }
    assert only_settings(own, files, [RATE, model]) == {"RATE": 0.5, "UNITS": 16}
    assert only_settings(own, files, [RATE]) == {}
