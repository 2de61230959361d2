"""What a PDF holds that nobody sees: words that leave no trace on the page, and its metadata.

Each page is drawn, and a word counts as hidden where its place on the picture is of one colour, or
the word has the colour of what is behind it: white words, transparent ones, words below a box or
beside the page. So do words of less than three points. Text that is drawn invisibly counts as
hidden too, unless it is most of a document: that is what a scan's OCR leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hpcscientist.errors import LibraryError
from hpcscientist.literature.sources.pdf import document
from hpcscientist.records.reviews import Place

_DPI: Final = 100
_CONTRAST: Final = 40  # of 255: what a picture needs for a word to be seen
_TINY: Final = 3.0  # points
_LIGHT: Final = 0.85  # of each channel
_INVISIBLE: Final = 3  # text rendering mode
_PAGES: Final = 500
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class HiddenWord:
    """A word nobody sees. `page` counts from 0; `box` in points from the page's top left."""

    page: int
    box: Box
    text: str


@dataclass(frozen=True, slots=True)
class Aside:
    """A text of the file that is on no page's face."""

    place: Place
    page: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Hidden:
    """All that was found in a file."""

    words: tuple[HiddenWord, ...]
    asides: tuple[Aside, ...]

    def runs(self) -> Iterator[tuple[int, str]]:
        """Yield hidden words that follow each other as one text, with their page from 0."""
        run: list[HiddenWord] = []
        for word in self.words:
            if run and not _follows(run[-1], word):
                yield run[0].page, " ".join(of.text for of in run)
                run = []
            run.append(word)
        if run:
            yield run[0].page, " ".join(of.text for of in run)


def look(path: Path) -> Hidden:
    """Return what is hidden in a PDF file. Raises LibraryError where it cannot be drawn."""
    pymupdf = document.pymupdf()
    try:
        with pymupdf.open(path) as opened:
            pages = [_words(page) for page in opened.pages(0, min(len(opened), _PAGES))]
            asides = tuple(_asides(opened))
    except (RuntimeError, ValueError) as error:  # PyMuPDF's own are RuntimeErrors
        raise LibraryError(f"{path}: cannot be drawn: {error}; make the PDF anew") from error
    all_words = [word for page in pages for word in page]
    invisible = sum(len(word.text) for word in all_words if word.invisible)
    scanned = 2 * invisible > sum(len(word.text) for word in all_words)
    found = [
        HiddenWord(word.page, word.box, word.text)
        for word in all_words
        if word.unseen or (word.invisible and not scanned)
    ]
    return Hidden(tuple(found), asides)


@dataclass(frozen=True, slots=True)
class _Word:
    page: int
    box: Box
    text: str
    invisible: bool
    unseen: bool


def _words(page: Any) -> list[_Word]:
    turned = page.rotation_matrix
    page.set_rotation(0)  # spans are told of the page as it is stored; lines, as it is shown
    picture = page.get_pixmap(dpi=_DPI, alpha=False)
    pixels = np.frombuffer(picture.samples, dtype=np.uint8)
    pixels = pixels.reshape(picture.height, picture.stride)[:, : picture.width * picture.n]
    pixels = pixels.reshape(picture.height, picture.width, picture.n)[:, :, :3]
    found = []
    for span in page.get_texttrace():
        colour = _rgb(span["color"])
        for text, box in _parts(span["chars"]):
            unseen = (
                span["size"] < _TINY
                or span["opacity"] * _CONTRAST < 2
                or _is_unseen(pixels, box, colour)
            )
            placed = _placed(box, turned)
            found.append(_Word(page.number, placed, text, span["type"] == _INVISIBLE, unseen))
    return found


def _placed(box: Box, turned: Any) -> Box:
    """Return a box on the page as it is shown, turned by a matrix of right angles."""
    corners = [
        (x * turned.a + y * turned.c + turned.e, x * turned.b + y * turned.d + turned.f)
        for x, y in (box[:2], box[2:])
    ]
    (x0, y0), (x1, y1) = corners
    return (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))


def _parts(chars: Sequence[Any]) -> Iterator[tuple[str, Box]]:
    """Yield a span's words, each with its box."""
    letters, boxes = list[str](), list[Box]()
    for code, _, _, box in (*chars, (32, 0, None, (0, 0, 0, 0))):
        letter = chr(code) if 0 < code < 0x110000 else "\ufffd"
        if not letter.isspace():
            letters.append(letter)
            boxes.append(box)
        elif letters:
            edges = zip(*boxes, strict=True)
            x0, y0, x1, y1 = (list(of) for of in edges)
            yield "".join(letters), (min(x0), min(y0), max(x1), max(y1))
            letters, boxes = [], []


def _is_unseen(pixels: npt.NDArray[np.uint8], box: Box, colour: tuple[float, ...]) -> bool:
    scale = _DPI / 72
    height, width = pixels.shape[:2]
    x0, y0 = max(0, int(box[0] * scale)), max(0, int(box[1] * scale))
    x1, y1 = min(width, int(box[2] * scale) + 1), min(height, int(box[3] * scale) + 1)
    if x1 <= x0 or y1 <= y0:
        return True  # beside the page
    place = pixels[y0:y1, x0:x1].reshape(-1, 3)
    if int((place.max(axis=0) - place.min(axis=0)).max()) < _CONTRAST:
        return True
    # Over other words there is contrast all the same. Dark words fill their own boxes at times.
    behind = np.median(place, axis=0) / 255
    return min(colour) > _LIGHT and bool(np.abs(behind - colour).max() < _CONTRAST / 255)


def _rgb(colour: Sequence[float] | None) -> tuple[float, ...]:
    match tuple(colour or (0.0,)):
        case (grey,):
            return (grey, grey, grey)
        case (cyan, magenta, yellow, black):
            return tuple((1 - part) * (1 - black) for part in (cyan, magenta, yellow))
        case rgb if len(rgb) == 3:
            return rgb
        case _:
            return (0.0, 0.0, 0.0)


def _asides(opened: Any) -> Iterator[Aside]:
    for value in (opened.metadata or {}).values():
        if isinstance(value, str) and value.strip():
            yield Aside("metadata", None, value)
    more = opened.get_xml_metadata()
    if more:
        yield Aside("metadata", None, more)
    for _, title, page, *_ in opened.get_toc():
        yield Aside("bookmark", page, title)
    for page in opened.pages(0, min(len(opened), _PAGES)):
        for annotation in page.annots():
            said = annotation.info.get("content", "")
            if said.strip():
                yield Aside("annotation", page.number + 1, said)


def _follows(last: HiddenWord, word: HiddenWord) -> bool:
    near = abs(word.box[1] - last.box[1]) < 3 * max(last.box[3] - last.box[1], 1)
    return last.page == word.page and near
