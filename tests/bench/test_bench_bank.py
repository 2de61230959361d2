"""The benchmark of the bank runs and finds what it must; what it takes is never asserted."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks import bank
from benchmarks.command_line import run


def test_both_sides_work_on_the_same_vectors() -> None:
    filled, proposed, expected = bank._filled(10_000, 64, 7)
    matrix, queries = bank._matrix(10_000, 64), bank._queries(10_000, 64, 7)
    assert expected == [bank._id(n * 10_000 // 7) if n % 2 == 0 else None for n in range(7)]
    products = matrix @ queries.T
    for number, (_, summary) in enumerate(proposed):
        near = filled.nearest(summary)
        assert near is not None
        assert near.idea_id == bank._id(int(products[:, number].argmax()))
        assert near.cosine == pytest.approx(float(products[:, number].max()), abs=1e-6)
    assert np.linalg.norm(matrix, axis=1) == pytest.approx(1.0, abs=1e-6)


def test_a_bank_that_finds_something_else_is_no_figure() -> None:
    with pytest.raises(RuntimeError, match="bank"):
        bank._see(["idea-0000001"], [None])


@pytest.mark.parametrize("sizes", [{"rows": 0}, {"ideas": 0}, {"runs": 0}, {"width": 63}])
def test_sizes_that_mean_nothing_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least"):
        bank.figures(**sizes)


def test_it_prints_the_contract_s_fields(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--rows", "3000", "--width", "64", "--ideas", "5", "--runs", "1"]
    assert run(["bank", "--json", *sizes]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["unit"] for row in rows] == ["s", "s", "s", "MiB"]
    assert all(row["value"] > 0 and row["ratio"] > 0 and row["runs"] == 1 for row in rows)
    assert [row["target"] for row in rows] == [1.3, None, 1.3, 1.15]
