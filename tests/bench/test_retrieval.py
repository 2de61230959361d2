"""`benchmarks retrieval`: the table, and what it must show on a small library."""

from __future__ import annotations

import json

import pytest
from benchmarks.command_line import run
from benchmarks.retrieval.figures import (
    SEARCHES,
    Measured,
    Options,
    figures,
    measure,
    table,
)

from hpcscientist.bench.figure import as_json
from hpcscientist.models.embedding.latent import LatentEmbedder


@pytest.fixture(scope="module")
def measured() -> Measured:
    return measure(Options(size=300, seeds=1))


def test_each_search_is_well_above_chance(measured: Measured) -> None:
    for by in SEARCHES:
        assert measured.mean(by).recall > 2.5 * measured.chance.recall
        assert measured.mean(by).precision > 5 * measured.chance.precision


def test_the_combination_is_as_good_as_the_better_of_the_two(measured: Measured) -> None:
    both, words, near = (measured.mean(by) for by in ("both", "keyword", "embedding"))
    assert both.recall >= max(words.recall, near.recall) - 0.02
    assert both.precision >= max(words.precision, near.precision) - 0.02
    assert near.recall > 1.3 * words.recall, "schools that share no word are found by vectors"


def test_one_table_and_the_figures_of_the_contract(measured: Measured) -> None:
    lines = table(measured).splitlines()
    assert lines[0].split() == ["search", "recall@50", "precision@10"]
    assert [line.split()[0] for line in lines[1:]] == ["keyword", "embedding", "combined", "at"]
    rows = json.loads(as_json(figures(measured)))
    assert len(rows) == 6
    combined = next(row for row in rows if row["name"] == "recall@50 by combined search")
    assert combined["target"] == 0.97
    assert combined["ratio"] >= 0.97


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["retrieval", "--size", "40", "--seeds", "1"]) == 0
    out, err = capsys.readouterr()
    assert "recall@50" in out
    assert LatentEmbedder.name in out
    assert "library 1 of 1" in err
    assert run(["retrieval", "--embedding-model", "/nowhere"]) == 2
