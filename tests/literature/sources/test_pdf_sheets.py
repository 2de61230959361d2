"""What MuPDF tells of a page as JSON, which a font's name or a text may spoil."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hpcscientist.literature.sources.pdf.document import Sheet, UnreadablePdf
from hpcscientist.literature.sources.pdf.lines import page_text

BOX = {"x": 8, "y": 16, "w": 80, "h": 10}
FONT = {"name": "Times", "family": "serif", "weight": "bold", "style": "normal", "size": 12}


def page(*lines: dict[str, Any]) -> bytes:
    blocks = [{"type": "text", "bbox": BOX, "lines": list(lines)}, {"type": "image", "bbox": BOX}]
    return json.dumps({"blocks": blocks}, ensure_ascii=False).encode()


def line(text: str, **more: Any) -> dict[str, Any]:
    return {"wmode": 0, "bbox": BOX, "font": FONT, "x": 8, "y": 26, "text": text} | more


def texts(data: bytes) -> list[str]:
    return [row.text for block in page_text(Sheet(800, data)).blocks for row in block]


def test_lines_are_told_with_where_they_stand() -> None:
    ((found,),) = page_text(Sheet(800, page(line("A title")))).blocks
    assert (found.x0, found.y0, found.x1, found.y1, found.size) == (8, 16, 88, 26, 12)
    assert (found.text, found.bold, found.italic, found.math) == ("A title", True, False, False)


def test_a_page_without_anything() -> None:
    assert Sheet(800, b"").blocks == []


def test_a_line_without_letters_has_no_font() -> None:
    bare = line("")
    del bare["font"]
    assert texts(page(bare, line("words"))) == ["words"]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"\xff", "\ufffd"),  # no UTF-8
        (b"\\ud800", "\ud800"),  # half of a letter
        (b"\x03", "\x03"),
        (b"\\x03", "\x03"),  # as MuPDF writes it in a font's name
        (b"\\\\x03", "\\x03"),  # a backslash, and letters
    ],
)
def test_what_is_no_json_costs_no_page(written: bytes, read: str) -> None:
    damaged = page(line("a MARK b"), line("words", font=FONT | {"name": "MARK"}))
    assert texts(damaged.replace(b"MARK", written)) == [f"a {read} b", "words"]


@pytest.mark.parametrize("data", [b'{"blocks": [', b'{"blocks": 1}', b"{}", b"[]"])
def test_an_account_that_makes_no_sense_is_a_damaged_page(data: bytes) -> None:
    with pytest.raises(UnreadablePdf, match="damaged"):
        page_text(Sheet(800, data))
