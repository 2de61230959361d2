"""What a learning curve shows."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.authoring.run_reading import symptom


def written(**series: list[float]) -> str:
    rows = zip(*series.values(), strict=True)
    return "".join(json.dumps(dict(zip(series, row, strict=True))) + "\n" for row in rows)


FALLING = [1.0 * 0.9**n for n in range(12)]
SETTLED = [1.0, 0.6, 0.4, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]
RISEN = [1.0, 0.7, 0.5, 0.4, 0.42, 0.44, 0.47, 0.5, 0.52, 0.55, 0.58, 0.6]


@pytest.mark.parametrize(
    ("series", "shown"),
    [
        ({"train_loss": FALLING}, "undertrained"),
        ({"train_loss": SETTLED}, None),
        ({"train_loss": FALLING, "val_loss": RISEN}, "overfit"),
        ({"train/loss": FALLING, "valid/loss": SETTLED}, None),  # held-out data decide
        ({"train_loss": SETTLED, "val_loss": FALLING}, "undertrained"),
        ({"val_loss": RISEN}, None),  # without a training curve it may be anything
        ({"train_loss": [1.0, 0.9, 0.8, 1.2, 2.0, 5.0, 9.0]}, "diverged"),
        ({"loss": [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, math.nan]}, "diverged"),
        ({"accuracy": [1 - value for value in FALLING]}, "undertrained"),
        ({"epoch": [float(n) for n in range(12)]}, None),
        ({"learning_rate": FALLING}, None),
        ({"train_loss": FALLING[:4]}, None),  # too short
    ],
)
def test_symptoms(series: dict[str, list[float]], shown: str | None) -> None:
    assert symptom(written(**series)) == shown


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_it_never_raises(text: str) -> None:
    assert symptom(text) is None or symptom(text) in ("undertrained", "overfit", "diverged")


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20),
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20),
)
def test_nor_for_any_numbers(trained: list[float], held: list[float]) -> None:
    length = min(len(trained), len(held))
    found = symptom(written(train_loss=trained[:length], val_loss=held[:length]))
    assert found in (None, "undertrained", "overfit", "diverged")
