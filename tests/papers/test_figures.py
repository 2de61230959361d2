"""Figures: what they are drawn from, and that the drawing can be read, in print and by machines."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typesetting_kit import FOREST

from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.state import CampaignState
from hpcscientist.papers.figures import data, draw
from hpcscientist.papers.figures.data import FigureData, FigureTable
from hpcscientist.papers.figures.drawn import CAPTIONS
from hpcscientist.papers.walls.numerals import typed_numbers
from hpcscientist.records.manuscript import parse_line
from hpcscientist.results.aggregate import Overview, Scores

pytest.importorskip("matplotlib")
pymupdf = pytest.importorskip("pymupdf")

TABLES = (
    FOREST,
    FigureTable(
        "search-confirmed",
        "",
        (
            "idea",
            "delta",
            "ci_low",
            "ci_high",
            "test_delta",
            "test_ci_low",
            "test_ci_high",
            "outcome",
        ),
        (
            ("idea-0001", 0.035, 0.02, 0.05, 0.047, 0.04, 0.05, "confirmed"),
            ("idea-0002", 0.035, None, None, 0.046, None, None, "improvement"),
        ),
        {"metric": "accuracy", "noise_band": 0.015},
    ),
    FigureTable(
        "learning-curves",
        "",
        ("idea", "seed", "series", "step", "value"),
        tuple(
            (idea, seed, "train_loss", step, 2.0 / step + seed / 10)
            for idea in ("baseline", "idea-0001")
            for seed in (1, 2)
            for step in range(1, 6)
        ),
    ),
    FigureTable(
        "ablations",
        "",
        ("idea", "attempt", "kind", "title", "delta", "ci_low", "ci_high", "n"),
        (
            ("idea-0001", 1, "main", "the idea", 0.035, 0.02, 0.05, 5),
            ("idea-0001", 3, "ablation", "No velocity $\\x$", 0.01, None, None, 1),
        ),
        {"metric": "accuracy", "split": "validation"},
    ),
    FigureTable(
        "attempts",
        "",
        ("idea", "attempt", "parent", "kind", "outcome", "final"),
        (
            ("idea-0001", 1, 0, "draft", "failed", False),
            ("idea-0001", 2, 1, "debug", "scored", True),
            ("idea-0001", 3, 1, "improve", "piloted", False),
            ("idea-0002", 1, 0, "draft", "not run", True),
        ),
    ),
)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.id)
def test_a_figure_is_vectors_whose_words_can_be_read(table: FigureTable, tmp_path: Path) -> None:
    found = draw.draw(table, 5.5)
    (tmp_path / "figure.pdf").write_bytes(found["pdf"])
    with pymupdf.open(tmp_path / "figure.pdf") as opened:
        page = opened[0]
        assert page.rect.width <= 5.6 * 72
        assert page.get_images() == []
        words = page.get_text()
        sizes = [
            span["size"]
            for block in page.get_text("dict")["blocks"]
            for line in block.get("lines", ())
            for span in line["spans"]
        ]
    assert min(sizes) >= 6.5
    assert "idea-0001" in words or "0001" in words
    assert b"<svg" in found["svg"]
    assert b"<script" not in found["svg"]


def test_the_same_data_are_the_same_bytes() -> None:
    assert draw.draw(FOREST, 5.5) == draw.draw(FOREST, 5.5)


def test_a_title_is_no_formula_and_no_markup() -> None:
    svg = re.sub(r"<!--.*?-->", "", draw.draw(FOREST, 5.5)["svg"].decode(), flags=re.DOTALL)
    assert "Momentum $x$ \\alpha ?" in svg


def test_csv_is_the_data_in_full() -> None:
    text = FOREST.as_csv()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    assert [float(row["delta"]) for row in rows] == [0.047, -0.035]
    assert rows[1]["ci_low"] == ""
    assert "# minimum_effect: 0.005" in text


@pytest.mark.parametrize("name", CAPTIONS)
def test_captions_of_our_own_type_no_number(name: str) -> None:
    for text in CAPTIONS[name]:
        parse_line(text)
        assert list(typed_numbers(text, (), set())) == []
        assert not re.search(r"\d", text)


def test_the_noise_band_is_that_of_four_means() -> None:
    scores = Scores({("baseline", 1): {1: 0.9, 2: 0.92, 3: 0.94}}, 0)
    campaign = FigureData(
        RunPaths(Path("nowhere")), CampaignState(), (), Overview(scores, scores, 0), "accuracy", 0.0
    )
    # SD 0.02, t(0.975, 2) = 4.3027: 4.3027 * sqrt(4 * 0.0004 / 3)
    assert data.noise_band(campaign) == pytest.approx(0.09937, abs=1e-5)
    one = Scores({("baseline", 1): {1: 0.9}}, 0)
    assert data.noise_band(replace(campaign, values=Overview(one, one, 0))) == 0.0


def test_a_recipes_own_drawing_is_given_the_list_of_fonts(tmp_path: Path) -> None:
    draw.draw(FOREST, 4.0)  # makes the list, where this user has none
    draw.copy_font_list(tmp_path / "cache")
    code = "import matplotlib.font_manager as m; print(m._get_fontconfig_fonts.cache_info().misses)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"MPLCONFIGDIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "0\n", "no font was looked for"
