"""The report in a real browser, from a file: nothing is asked for, and what it shows is right."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from browser_kit import opened
from drawn_campaigns import HOSTILE, draw

from hpcscientist.cli.main import run
from hpcscientist.files.rundir import RunPaths

pytestmark = pytest.mark.browser

# What each view shows, read back from the page.
READ = """
(async () => {
  const text = (query) => [...document.querySelectorAll(query)].map((node) => node.textContent);
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const rows = [], place = document.querySelector("#ideas .scroll"), seen = new Set();
  for (let top = 0; ; top += 300) {
    place.scrollTop = top;
    await wait(40);
    for (const row of place.querySelectorAll("tr[data-id]")) {
      if (seen.has(row.dataset.id)) continue;
      seen.add(row.dataset.id);
      rows.push([...row.children].map((cell) => cell.textContent));
    }
    if (top > place.scrollHeight) break;
  }
  const table = (place) => [...place.querySelectorAll("tbody tr")].map((row) =>
    [...row.children].map((cell) => cell.textContent));
  return {
    answers: text("section.view .answer"), rows,
    cells: table(document.querySelector("#failures table")),
    points: document.querySelectorAll("#best svg path.m").length,
  };
})()
"""
# The card of an idea, opened by its address.
CARD = """new Promise((done) => setTimeout(
    () => done(document.querySelector("dialog").innerText), 600))"""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    return draw(tmp_path_factory.mktemp("drawn"), 80, control=0.3, titles=HOSTILE)


@pytest.fixture(scope="module")
def page(paths: RunPaths) -> Path:
    assert run(["report", str(paths.root)]) == 0
    return paths.report


@pytest.fixture
def rows(paths: RunPaths, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run(["results", str(paths.root), "--format", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def script(folder: Path, text: str) -> Path:
    place = folder / "script.js"
    place.write_text(text)
    return place


def test_views_show_the_numbers_of_results_and_nothing_is_asked_for(
    page: Path, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    found = opened(page, "--walk", "--script", script(tmp_path, READ))
    assert found["requests"] == [page.as_uri()]
    assert found["problems"] == []
    shown, ideas = found["script"], [row for row in rows if row["status"] != "baseline"]
    assert len(shown["rows"]) == len(ideas)
    for cells, row in zip(shown["rows"], ideas, strict=True):
        assert cells[0] == row["idea_id"]
        assert cells[1] == row["title"][:300]
        outcome = "confirmed" if row["confirmed"] else row["finding"] or row["status"]
        assert cells[2] == outcome.replace("scored", "undecided")
        if row["delta"] is not None:
            assert number(cells[3]) == pytest.approx(row["delta"], rel=5e-3)
        if row["test_delta"] is not None:
            assert number(cells[5]) == pytest.approx(row["test_delta"], rel=5e-3)
    improved = [row for row in rows if row["finding"] == "improvement"]
    held = [row for row in improved if row["confirmed"]]
    assert shown["answers"][0].startswith(f"{len(improved)} of {len(ideas)} ideas improved")
    assert f"{len(held)} of these" in shown["answers"][0]
    assert shown["points"] >= sum(row["mean"] is not None for row in ideas)
    rejected = sum(row["status"] == "rejected" for row in rows)
    by_cause = {cells[0]: cells for cells in shown["cells"]}
    assert by_cause["repeats an earlier idea"][3] == str(rejected)


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def test_the_card_opens_by_its_address_with_all_that_is_known(
    page: Path, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    row = next(row for row in rows if row["confirmed"])
    found = opened(page, "--open", row["idea_id"], "--script", script(tmp_path, CARD))
    text = found["script"]
    assert row["title"][:40] in text
    assert "confirmed improvement" in text
    for part in ("Hypothesis", "Novelty: novel", "Seeds on the test split", "Run it again"):
        assert part in text
    assert f"hpcsci reproduce {page.parent} --idea {row['idea_id']}" in text
    assert "+RATE = 0.1" in text
    assert found["problems"] == []


def test_a_part_of_the_time_can_be_looked_at(page: Path) -> None:
    found = opened(page, "--walk", "--script", Path(__file__).parent / "zoom_in.js")
    assert found["problems"] == []
    middle, later, all_, dragged, out = found["script"]
    assert all_ == out == ["all of it", False]
    told = [
        re.fullmatch(r"from (.+) to (.+) after the start", said)
        for said, _ in (middle, later, dragged)
    ]
    assert all(told)
    assert [changed for _, changed in (middle, later, dragged)] == [True, True, True]
    assert len({found and found[0] for found in told}) == 3


@pytest.mark.parametrize("flags", [(), ("--dark",), ("--width", "390")])
def test_axe_finds_nothing(page: Path, rows: list[dict[str, Any]], flags: tuple[str, ...]) -> None:
    assert opened(page, "--walk", "--axe", *flags)["axe"] == []
    idea = rows[1]["idea_id"]
    assert opened(page, "--open", idea, "--axe", *flags)["axe"] == []


def test_hands_off_the_mouse(page: Path) -> None:
    """Search, move between ideas, open a card, close it: by keys alone."""
    keys = "/ m o m e n t u m Tab Tab"
    found = opened(page, "--keys", keys)["keys"]
    assert found[0]["focus"] == "search"
    assert "momentum" not in found[0]["hash"]
    steps = opened(
        page,
        "--script",
        Path(__file__).parent / "focus_first.js",
        "--keys",
        "ArrowDown Enter Escape",
    )
    down, enter, escape = steps["keys"]
    assert down["focus"] == "idea-0002"
    assert (enter["hash"], enter["open"]) == ("#idea-0002", True)
    assert (escape["hash"], escape["open"], escape["focus"]) == ("", False, "idea-0002")


def test_ten_thousand_ideas_stay_smooth(tmp_path: Path) -> None:
    """First paint and memory beside an empty page; the table scrolls from end to end."""
    big = draw(tmp_path, 10_000, control=0.2)
    assert run(["report", str(big.root)]) == 0
    empty = tmp_path / "empty.html"
    empty.write_text("<!doctype html><title>t</title><p>empty</p>")
    bare = opened(empty, "--measure")
    found = opened(big.report, "--measure")
    print(f"{big.report.stat().st_size / 1e6:.1f} MB, {found['nodes']} nodes")
    print(f"first paint {found['paint_ms']:.0f} ms, an empty page {bare['paint_ms']:.0f} ms")
    print(f"usable after {found['interactive_ms']:.0f} ms, heap {found['heap_mb']:.0f} MB")
    print(f"95 % of frames while scrolling took at most {found['scroll_frame_ms']:.0f} ms")
    assert found["problems"] == []
    assert found["heap_mb"] < 60
    assert found["nodes"] < 20_000
