"""The HTML report without a browser: what is embedded, what may run, what strangers wrote."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from drawn_campaigns import HOSTILE, draw

from hpcscientist.cli.main import run
from hpcscientist.files.rundir import RunPaths
from hpcscientist.report.page import VIEWS
from hpcscientist.views import campaign

IDEAS = 60


@dataclass
class Page(HTMLParser):
    """What a browser makes of a page: elements with their attributes, texts, scripts."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    inside: dict[str, list[str]] = field(default_factory=dict)
    blocks: dict[str, str] = field(default_factory=dict)
    scripts: list[str] = field(default_factory=list)
    _open: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        tag, attributes = self._open[-1] if self._open else ("", {})
        self.inside.setdefault(tag, []).append(data)
        if tag == "script" and attributes.get("id"):
            self.blocks[str(attributes["id"])] = data
        elif tag == "script":
            self.scripts.append(data)

    def json(self, name: str) -> Any:
        return json.loads(self.blocks[name])

    def cards(self) -> list[dict[str, Any]]:
        packs = sorted((n for n in self.blocks if n.startswith("cards-")), key=lambda n: int(n[6:]))
        found = [json.loads(gzip.decompress(base64.b64decode(self.blocks[n]))) for n in packs]
        return [card for pack in found for card in pack]


def parsed(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    return page


def report(*folders: Path, out: Path) -> str:
    assert run(["report", *map(str, folders), "--out", str(out)]) == 0
    return out.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    return draw(tmp_path_factory.mktemp("drawn"), IDEAS, control=0.3, titles=HOSTILE)


@pytest.fixture(scope="module")
def text(paths: RunPaths, tmp_path_factory: pytest.TempPathFactory) -> str:
    return report(paths.root, out=tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return parsed(text)


def test_the_rows_are_those_of_results(
    paths: RunPaths, page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["results", str(paths.root), "--format", "json"]) == 0
    assert page.json("results") == json.loads(capsys.readouterr().out)


def test_each_views_numbers_are_those_of_the_rows(paths: RunPaths, page: Page) -> None:
    rows = {row["idea_id"]: row for row in page.json("results")}
    data = page.json("campaign")
    for point in data["best"]["points"]:
        row = rows[point["idea_id"]]
        assert (point["mean"], point["delta"], point["test"]) == (
            row["mean"],
            row["delta"],
            row["test_delta"],
        )
    assert {p["idea_id"] for p in data["best"]["points"]} == {
        i for i, row in rows.items() if row["mean"] is not None and row["status"] != "baseline"
    }
    assert data["best"]["baseline"] == rows["baseline"]["mean"]
    improved = [row for row in rows.values() if row["finding"] == "improvement"]
    assert data["figures"]["improvements"] == len(improved)
    ideas = unpacked(data["ideas"])
    assert [idea["id"] for idea in ideas] == [i for i in rows if i != "baseline"]
    spent = sum(row["cpu_hours"] or 0 for row in rows.values())
    assert data["figures"]["cpu_hours"] == pytest.approx(spent)
    trials = unpacked(data["trials"])
    assert len(trials) == sum(stage["trials"] for stage in data["stages"])
    whole = data["contest"]["whole"]
    assert sum(arm["improved"] for arm in whole.values()) == len(improved)
    for source in data["sources"]:
        row = rows[source["idea_id"]]
        assert source["delta"] == row["delta" if source["split"] == "validation" else "test_delta"]
    cards = page.cards()
    assert [card["idea_id"] for card in cards] == [idea["id"] for idea in ideas]


def unpacked(table: dict[str, Any]) -> list[dict[str, Any]]:
    columns = [
        [names[at] for at in column] if names else column
        for column, names in zip(table["values"], table["names"], strict=True)
    ]
    return [dict(zip(table["columns"], row, strict=True)) for row in zip(*columns, strict=True)]


def test_nothing_runs_but_the_pages_own_script(page: Page) -> None:
    (policy,) = (
        attributes["content"] or ""
        for tag, attributes in page.elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    (script,), (style,) = page.scripts, page.inside["style"]
    assert parts == {
        "default-src": "'none'",
        "script-src": f"'{sha(script)}'",
        "style-src": f"'{sha(style)}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    tags = [tag for tag, _ in page.elements]
    assert tags.index("meta") < tags.index("style") < tags.index("script")
    assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]
    # What a policy without 'unsafe-inline' would ignore.
    assert not [1 for _, attributes in page.elements if "style" in attributes]


def sha(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def test_nobody_is_asked_for_anything(page: Page) -> None:
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "srcset", "data", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:,")), (tag, name, value)
    (script,), (style,) = page.scripts, page.inside["style"]
    assert re.findall(r"https?://[^\"']*", script) == ["http://www.w3.org/2000/svg"]
    assert "url(" not in style
    assert "@import" not in style
    # Nothing makes elements of text, or code of it.
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(", script
    )
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|import\(", script)


def test_strangers_words_are_text(paths: RunPaths, page: Page, text: str) -> None:
    folder = paths.root.parent
    others = draw(folder / "plain", IDEAS, control=0.3)
    plain = parsed(report(others.root, out=folder / "plain.html"))
    # As many elements of each kind as a page without such titles has.
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    rows = page.json("results")
    assert rows[1]["title"] == HOSTILE[0]
    assert rows[2]["title"] == HOSTILE[1]
    for character in "\u202e\u2066\x00\x1b":
        assert character not in text
    assert "\u2028" not in text
    (title,) = page.inside["title"]
    assert title.startswith("drawn-1: ")
    shown = "".join(page.inside.get("td", []))
    assert HOSTILE[0] in shown  # as text, for who runs no script


def test_every_view_has_its_question_as_its_title(page: Page) -> None:
    headings = page.inside["h2"]
    for _, question, _ in VIEWS:
        assert question.endswith("?")
        assert question in headings
    sections = {
        a["id"]: a["aria-labelledby"] for t, a in page.elements if t == "section" and a.get("id")
    }
    assert sections == {i: f"{i}-title" for i, _, _ in VIEWS}
    assert ("html", {"lang": "en"}) in page.elements


def test_a_running_campaign_and_one_without_anything_are_shown(tmp_path: Path) -> None:
    running = draw(tmp_path / "running", 20, ended=False)
    data = parsed(report(running.root, out=tmp_path / "running.html")).json("campaign")
    titles = [idea["title"] for idea in unpacked(data["ideas"])]
    assert [bool(title) for title in titles] == [False] * 18 + [True] * 2
    empty = draw(tmp_path / "empty", 1)
    lines = empty.journal.read_bytes().splitlines(keepends=True)
    empty.journal.write_bytes(lines[0])
    (empty.results / "part-000001.parquet").unlink(missing_ok=True)
    page = parsed(report(empty.root, out=tmp_path / "empty.html"))
    assert page.json("results") == []
    assert page.cards() == []


def test_it_is_written_beside_the_campaign_or_to_stdout(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    paths = draw(tmp_path, 5)
    assert run(["report", str(paths.root)]) == 0
    said = capsysbinary.readouterr().out
    assert said.startswith(str(paths.root / "report.html").encode())
    assert run(["report", str(paths.root), "--out", "-"]) == 0
    assert capsysbinary.readouterr().out.startswith(b"<!doctype html>")
    assert not campaign.read(paths).summary.missing.count  # the page is no part of the campaign
    (tmp_path / "file").touch()
    assert run(["report", str(paths.root), "--out", str(tmp_path / "file" / "x.html")]) == 1
    (line,) = capsysbinary.readouterr().err.splitlines()
    assert b"x.html: " in line and b"--out" in line


def test_several_campaigns_are_compared(tmp_path: Path) -> None:
    folders = [
        draw(tmp_path / name, ideas, name=name, seed=ideas, titles=HOSTILE).root
        for name, ideas in (("one", 20), ("two", 30))
    ]
    page = parsed(report(*folders, out=tmp_path / "both.html"))
    data = page.json("comparison")
    assert [side["name"] for side in data["sides"]] == ["one", "two"]
    for side, folder in zip(data["sides"], folders, strict=True):
        rows = campaign.read(RunPaths(folder)).rows
        assert side["whole"]["improved"] == sum(row.finding == "improvement" for row in rows)
        assert side["whole"]["ideas"] == len(rows) - 1
    assert ["ideas", ["20", "30"]] in data["differing"]
    (script,) = page.scripts
    assert any(sha(script) in (a.get("content") or "") for t, a in page.elements if t == "meta")


@pytest.mark.parametrize("arguments", [[], ["nowhere"], ["here", "here"]])
def test_wrong_use_is_one_line(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["report", *arguments]) in (1, 2)
    assert list(tmp_path.iterdir()) == []
