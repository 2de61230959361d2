import pytest
from pydantic import ValidationError

from hpcscientist.recipe.schema import Knob


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "choice", "choices": ("a",)},
        {"type": "int"},
        {"type": "int", "low": 2, "high": 2},
        {"type": "float", "low": 0, "high": 1, "log": True},
    ],
)
def test_ranges_that_make_no_sense_are_refused(fields):
    with pytest.raises(ValidationError):
        Knob(name="A", **fields)
