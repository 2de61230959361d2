"""Columns of numbers are what Arrow and NumPy would have made of them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from hpcscientist.literature.library.parts import as_column, column, distinct

NUMBERS = [
    np.array([3, -1, 2**62, 0], dtype=np.int64),
    np.array([2**64 - 1, 0, 7], dtype=np.uint64),
    np.empty(0, dtype=np.int64),
    np.arange(20, dtype=np.int64)[::3],
]


@pytest.mark.parametrize("number", range(len(NUMBERS)))
def test_numbers_become_a_column_and_come_back(number: int) -> None:
    numbers: npt.NDArray[np.generic] = NUMBERS[number]
    made = as_column(numbers)
    assert made.equals(pa.array(numbers))
    made.validate(full=True)
    batch = pa.record_batch([made], names=["n"])
    back = column(batch, "n")
    assert back.dtype == numbers.dtype
    assert back.tolist() == numbers.tolist()


def test_a_part_of_a_batch_has_its_own_numbers() -> None:
    batch = pa.record_batch(
        {
            "year": pa.array([1, 2, 3, 4], pa.int32()),
            "fragment": pa.array([True, False, False, True]),
        }
    )
    assert column(batch.slice(1, 2), "year").tolist() == [2, 3]
    assert column(batch.slice(1, 3), "fragment").tolist() == [False, False, True]
    assert column(batch.slice(4), "year").tolist() == []


@pytest.mark.parametrize("numbers", [[], [5], [2, 2, 2], [3, 1, 3, -4, 1, 9]])
def test_distinct_numbers_are_those_of_numpy(numbers: list[int]) -> None:
    given = np.array(numbers, dtype=np.int64)
    assert distinct(given).tolist() == np.unique(given).tolist()


def test_numbers_are_read_where_arrow_was_imported_without_numpy() -> None:
    code = """
from hpcscientist.system.lean import without
with without("numpy"):
    import pyarrow as pa
from hpcscientist.literature.library.parts import column
batch = pa.record_batch({"n": pa.array([4, 5, 6], pa.int64())})
print(column(batch.slice(1), "n").tolist())
"""
    told = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    assert told.stdout == "[5, 6]\n"
