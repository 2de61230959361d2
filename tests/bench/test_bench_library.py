"""The benchmark of libraries runs and says what it compares; no time is asserted."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.library.abstracts import questions, write_abstracts
from benchmarks.library.figures import MEMORY_MB, PDF_TARGET, Options, figures
from benchmarks.library.memory import PeakMemory, tree_mb
from benchmarks.library.sides import text_length


@pytest.mark.full
def test_each_figure_stands_beside_what_it_is_compared_with(tmp_path: Path) -> None:
    options = Options(pdfs=3, abstracts=60, queries=5, runs=1, jobs=1, folder=tmp_path)

    found = {figure.name: figure for figure in figures(options)}

    bare, stored = found["3 PDFs, bare text extraction"], found["3 PDFs, read and stored"]
    assert (stored.target, stored.at_least) == (PDF_TARGET, True)
    assert stored.ratio == pytest.approx(stored.value / bare.value)
    assert found["3 PDFs, library built"].ratio is not None
    assert found["3 PDFs, processor time a document, read and stored"].ratio is not None
    memory = found["60 abstracts, peak memory of all processes"]
    assert memory.target == MEMORY_MB
    assert 20 < memory.value < MEMORY_MB
    plain = found["search, bare keyword index"]
    ours = found["search, by keyword, with explanations"]
    assert ours.ratio == pytest.approx(ours.value / plain.value)
    assert all(math.isfinite(figure.value) for figure in found.values())
    assert list(tmp_path.iterdir()) == []


def test_counts_are_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        figures(Options(pdfs=0))


def test_abstracts_and_questions_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_abstracts(tmp_path / name, 20, seed=4)

    text = (tmp_path / "one").read_text()
    assert text == (tmp_path / "two").read_text()
    records = [json.loads(line) for line in text.splitlines()]
    assert len({record["title"] for record in records}) == 20
    assert questions(3, seed=4) == questions(3, seed=4)


def test_memory_is_that_of_all_processes_below() -> None:
    code = "held = b'x' * (96 << 20); print('held', flush=True); input()"
    before = tree_mb(os.getpid())
    with PeakMemory() as peak:
        child = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with_child = tree_mb(os.getpid())
        while peak.largest_mb < before + 90:
            assert child.poll() is None
            time.sleep(0.01)
        child.communicate("\n")

    assert with_child - before > 90


def test_memory_is_looked_at_a_last_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.library.memory._EVERY_S", 3600)
    before = tree_mb(os.getpid())
    with PeakMemory() as peak:
        held = b"x" * (96 << 20)

    assert peak.largest_mb - before > 90
    assert len(held) == 96 << 20


def test_what_cannot_be_read_has_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\nnothing")

    assert text_length(str(tmp_path / "a.pdf")) == 0
