"""A generated paper, set in one column or two: pages, furniture, figures, references."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

from benchmarks.library.typesetting import (
    HEIGHT,
    WIDTH,
    Sheet,
    add_page,
    broken_lines,
    mupdf,
    width,
    with_ligatures,
)
from benchmarks.library.wording import Displayed, Part, Wording

_TOP: Final = 90.0
_BOTTOM: Final = HEIGHT - 80.0
_MARGIN: Final = 60.0
_GUTTER: Final = 22.0
_BODY: Final = 10.0
_LEADING: Final = 1.18
_PLACE: Final = "Department of Computing, University of Tests"
_FIGURE: Final = 110.0


class Setting:
    """Sets a paper on sheets, column by column."""

    def __init__(self, wording: Wording, columns: int) -> None:
        self._wording = wording
        full = WIDTH - 2 * _MARGIN
        self._measure = full if columns == 1 else (full - _GUTTER) / 2
        self._lefts = [_MARGIN + i * (self._measure + _GUTTER) for i in range(columns)]
        self.sheets: list[Sheet] = []
        self._top = _TOP
        self._column = 0
        self._y = 0.0

    def set(self) -> list[Sheet]:
        """Return the sheets of the whole paper."""
        self._new_sheet()
        self._head()
        self._plain_heading("Abstract")
        self._text(self._wording.abstract, size=9.0)
        for number, part in enumerate(self._wording.parts, 1):
            self._part(number, part)
        self._plain_heading("References")
        for number, entry in enumerate(self._wording.references, 1):
            self._entry(number, entry)
        return self.sheets

    def _new_sheet(self) -> None:
        sheet = Sheet()
        number = len(self.sheets) + 1
        self.sheets.append(sheet)
        if number > 1:
            running = with_ligatures(self._wording.title)[:60].split()
            sheet.words(_MARGIN, 50, "italic", 8.0, running, 2.0)
        page = str(number)
        sheet.words((WIDTH - width("roman", page, 9.0)) / 2, HEIGHT - 40, "roman", 9.0, [page], 2.0)
        self._top, self._column, self._y = _TOP, 0, _TOP

    def _room(self, height: float) -> None:
        """Go to the next column or page unless there is room for so much."""
        if self._y + height <= _BOTTOM:
            return
        if self._column + 1 < len(self._lefts):
            self._column, self._y = self._column + 1, self._top
        else:
            self._new_sheet()

    def _head(self) -> None:
        sheet = self.sheets[0]
        y = _TOP
        full = WIDTH - 2 * _MARGIN
        for line in broken_lines(with_ligatures(self._wording.title).split(), "bold", 17.0, full):
            self._centred(sheet, y, "bold", 17.0, line)
            y += 21.0
        self._centred(sheet, y + 8, "roman", 11.0, ", ".join(self._wording.authors).split())
        self._centred(sheet, y + 24, "italic", 9.0, _PLACE.split())
        told = f"Published {self._wording.year}. doi: {self._wording.doi}"
        self._centred(sheet, y + 38, "roman", 8.0, told.split())
        self._top = self._y = y + 64

    def _centred(self, sheet: Sheet, y: float, face: str, size: float, words: list[str]) -> None:
        gap = 0.28 * size
        wide = sum(width(face, word, size) for word in words) + gap * (len(words) - 1)
        sheet.words((WIDTH - wide) / 2, y, face, size, words, gap)

    def _part(self, number: int, part: Part) -> None:
        self._room(60.0)
        self._y += 12.0
        self._line("bold", 12.0, [str(number), *part.heading.split()], 4.0)
        self._y += 6.0
        for item in part.flow:
            if isinstance(item, Displayed):
                self._displayed(item)
            else:
                self._text(item)
        for caption in part.captions:
            self._figure(number)
            self._text(caption, size=8.0)

    def _plain_heading(self, text: str) -> None:
        self._room(50.0)
        self._y += 12.0
        self._line("bold", 11.0, [text], 4.0)
        self._y += 4.0

    def _line(
        self, face: str, size: float, words: list[str], gap: float, indent: float = 0.0
    ) -> None:
        x = self._lefts[self._column] + indent
        self.sheets[-1].words(x, self._y, face, size, words, gap)
        self._y += size * _LEADING

    def _text(self, text: str, size: float = _BODY, indent: float = 0.0) -> None:
        words = with_ligatures(text).split()
        measure = self._measure - indent
        lines = broken_lines(words, "roman", size, measure)
        for number, line in enumerate(lines):
            self._room(size * _LEADING)
            gap = 0.25 * size
            if number + 1 < len(lines) and len(line) > 1:
                gap = (measure - sum(width("roman", w, size) for w in line)) / (len(line) - 1)
            self._line("roman", size, line, gap, indent)
        self._y += 0.8 * size

    def _displayed(self, formula: Displayed) -> None:
        self._text(formula.before)
        self._room(3 * _BODY)
        self._y += 0.4 * _BODY
        left = self._lefts[self._column]
        sheet = self.sheets[-1]
        sheet.formula(left + 0.12 * self._measure, self._y, formula.marked, _BODY)
        number = width("roman", formula.number, _BODY)
        sheet.words(left + self._measure - number, self._y, "roman", _BODY, [formula.number], 2.0)
        self._y += 2.2 * _BODY
        self._text(formula.after)

    def _figure(self, number: int) -> None:
        self._room(_FIGURE + 40)
        sheet, left, top = self.sheets[-1], self._lefts[self._column], self._y
        right, bottom = left + self._measure, top + _FIGURE - 10
        sheet.curve([(left, top), (left, bottom), (right, bottom)])
        step = (right - left) / 200
        for k in range(3):
            height = [0.5 + 0.4 * math.sin(number + k + i / 20) for i in range(200)]
            sheet.curve([(left + i * step, top + h * (bottom - top)) for i, h in enumerate(height)])
        for tick in range(5):
            x = left + (right - left) * tick / 5
            sheet.words(x, bottom + 8, "roman", 6.0, [f"{tick / 4:g}"], 2.0)
        self._y = bottom + 24

    def _entry(self, number: int, entry: str) -> None:
        self._room(3 * 9.0 * _LEADING)
        label = f"[{number}]"
        x = self._lefts[self._column]
        self.sheets[-1].words(x, self._y, "roman", 9.0, [label], 2.0)
        self._text(entry, size=9.0, indent=20.0)
        self._y -= 4.0


def paper_document(wording: Wording, columns: int) -> Any:
    """Return a document of PyMuPDF that holds the paper; metadata are what TeX leaves: few."""
    document = mupdf().open()
    fonts: dict[str, int] = {}
    for sheet in Setting(wording, columns).set():
        add_page(document, sheet, fonts)
    document.subset_fonts()
    document.set_metadata({"producer": "pdfTeX-1.40.25", "creator": "TeX"})
    return document


def write_paper(path: Path, wording: Wording, columns: int = 2) -> None:
    """Write a paper as a PDF file."""
    document = paper_document(wording, columns)
    document.save(path, deflate=True, no_new_id=True)
    document.close()
