"""Finds what people do not see in a paper: in LaTeX, comments, white and tiny text, phantoms; in a
PDF, words without a trace on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hpcscientist.errors import LibraryError
from hpcscientist.literature.sources.pdf import document
from hpcscientist.records.reviews import Place

_WHITE: Final = 0.85  # the least of each colour component
_TINY: Final = 4.0  # points
_NUMBER = r"\d*\.?\d+"
_DEFINED = re.compile(
    r"\\definecolor\s*\{([^{}]+)\}\s*\{(rgb|RGB|HTML|gray|cmyk)\}\s*\{([^{}]+)\}"
    r"|\\colorlet\s*\{([^{}]+)\}\s*\{([^{}]+)\}"
)
_COLOUR = r"(?:\[(rgb|RGB|HTML|gray|cmyk)\])?\s*\{([^{}]*)\}"
# Commands whose last argument is not visible.
_ARGUMENT = re.compile(
    rf"\\textcolor\s*{_COLOUR}\s*(?=\{{)|\\[hv]?phantom\s*(?=\{{)|\\pdftooltip\s*\{{[^{{}}]*\}}\s*(?=\{{)"
    rf"|\\texttransparent\s*\{{0*\.?0*\}}\s*(?=\{{)|\\(?:hypersetup|pdfinfo|pdfcomment)\s*(?=\{{)"
    rf"|\\scalebox\s*\{{0?\.[01]\d*\}}\s*(?=\{{)"
)
# Commands after which nothing is visible up to the end of the group.
_SWITCH = re.compile(
    rf"\\color\s*{_COLOUR}|\\fontsize\s*\{{\s*({_NUMBER})\s*(?:pt)?\s*\}}\s*\{{[^{{}}]*\}}\s*\\selectfont"
    r"|\\transparent\s*\{0*\.?0*\}"
)
_COMMENT = re.compile(r"(?<!\\)(?:\\\\)*%+([^\n]*)")
_UNSHOWN = re.compile(
    r"\\begin\s*\{comment\}(.*?)\\end\s*\{comment\}|\\iffalse(?![a-zA-Z])(.*?)\\fi(?![a-zA-Z])",
    re.S,
)


def comments(source: str) -> Iterator[str]:
    """Yield comments, and text that is switched off. Consecutive comment lines are one text."""
    block = list[str]()
    for line in source.split("\n"):
        found = _COMMENT.search(line)
        if found:
            block.append(found[1].strip())
        if block and (not found or line[: found.start()].strip()):
            yield " ".join(block).strip()
            block = []
    if block:
        yield " ".join(block).strip()
    for found in _UNSHOWN.finditer(source):
        yield (found[1] or found[2] or "").strip()


def whites(source: str) -> frozenset[str]:
    """Return the names of colours that are white or nearly white."""
    names = {"white"}
    for found in _DEFINED.finditer(source):
        name, model, value, other, given = found.groups()
        if name and _is_white(model, value):
            names.add(name.strip())
        elif other and given.strip() in names:
            names.add(other.strip())
    return frozenset(names)


def without(source: str, white: frozenset[str]) -> tuple[str, list[str]]:
    """Return LaTeX without the text that its PDF does not show, and that text."""
    hidden = list[str]()

    def is_hidden(found: re.Match[str]) -> bool:
        said = found[0]
        if said.startswith((r"\textcolor", r"\color")):
            model, value = found[1], found[2]
            return _is_white(model, value) if model else _named(value, white)
        return not said.startswith(r"\fontsize") or float(found[3]) < _TINY

    for pattern, whole in ((_ARGUMENT, False), (_SWITCH, True)):
        parts, done = list[str](), 0
        for found in pattern.finditer(source):
            if found.start() < done or not is_hidden(found):
                continue
            end = group_end(source, found.end() if whole else found.end() + 1)
            hidden.append(source[found.end() : end].strip("{} \n"))
            start, end = found.start(), end if whole else end + 1
            if whole and source[start - 1 : start] == "{" and source[end : end + 1] == "}":
                start, end = start - 1, end + 1  # the group held nothing else
            parts.append(source[done:start])
            done = end
        source = "".join([*parts, source[done:]])
    return source, [text for text in hidden if text]


def _named(value: str, white: frozenset[str]) -> bool:
    """Return whether a colour's name is white, or almost only white (white!95!blue)."""
    name, _, rest = value.strip().partition("!")
    share = re.match(_NUMBER, rest)
    if name not in white:
        # "black!3" is black with 97 parts of white.
        return bool(share) and "!" not in rest and float(share[0]) <= 100 * (1 - _WHITE)  # type: ignore[index]
    return share is None or float(share[0]) >= 100 * _WHITE


def _is_white(model: str, value: str) -> bool:
    if model == "HTML":
        digits = value.strip()
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)] if _is_hex(digits) else []
    else:
        numbers = [float(part) for part in re.findall(_NUMBER, value)]
        parts = [part / 255 for part in numbers] if model == "RGB" else numbers
        if model == "cmyk":
            parts = [1 - part for part in parts]
    return bool(parts) and min(parts) >= _WHITE


def _is_hex(text: str) -> bool:
    return re.fullmatch(r"[0-9A-Fa-f]{6}", text) is not None


def group_end(source: str, start: int) -> int:
    """Return the end of the group that contains `start`: its brace, or the end of the text."""
    depth = 0
    for found in re.finditer(r"\\.|[{}]", source[start:], re.S):
        if found[0] == "{":
            depth += 1
        elif found[0] == "}":
            if depth == 0:
                return start + found.start()
            depth -= 1
    return len(source)


# Hidden text in a PDF: words that leave no trace on the page, and metadata.
#
# Each page is rendered. A word is hidden if its box in the picture has a single colour, or if the
# word has the colour of its background: white or transparent words, words below a box or beside
# the page. Words of less than three points are hidden too. So is text that is drawn invisibly,
# unless it is most of the document: then it is the OCR layer of a scan.

_DPI: Final = 100
_CONTRAST: Final = 40  # of 255: the least contrast of a visible word
_TINY_POINTS: Final = 3.0  # points
_LIGHT: Final = 0.85  # the least of each channel of a light colour
_INVISIBLE: Final = 3  # text rendering mode
_PAGES: Final = 500
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class HiddenWord:
    """A word that people cannot see. `page` counts from 0; `box` is in points from the top left."""

    page: int
    box: Box
    text: str


@dataclass(frozen=True, slots=True)
class Aside:
    """A text in the file that no page shows, such as metadata or a bookmark."""

    place: Place
    page: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Hidden:
    """Everything hidden that was found in a file."""

    words: tuple[HiddenWord, ...]
    asides: tuple[Aside, ...]

    def runs(self) -> Iterator[tuple[int, str]]:
        """Yield adjacent hidden words as one text, with their page counted from 0."""
        run: list[HiddenWord] = []
        for word in self.words:
            if run and not _follows(run[-1], word):
                yield run[0].page, " ".join(of.text for of in run)
                run = []
            run.append(word)
        if run:
            yield run[0].page, " ".join(of.text for of in run)


def look(path: Path) -> Hidden:
    """Return what is hidden in a PDF file. Raises LibraryError if it cannot be rendered."""
    pymupdf = document.pymupdf()
    try:
        with pymupdf.open(path) as opened:
            pages = [_words(page) for page in opened.pages(0, min(len(opened), _PAGES))]
            asides = tuple(_asides(opened))
    except (RuntimeError, ValueError) as error:  # PyMuPDF's own errors are RuntimeErrors
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
    page.set_rotation(0)  # spans refer to the stored page, lines to the displayed one
    picture = page.get_pixmap(dpi=_DPI, alpha=False)
    pixels = np.frombuffer(picture.samples, dtype=np.uint8)
    pixels = pixels.reshape(picture.height, picture.stride)[:, : picture.width * picture.n]
    pixels = pixels.reshape(picture.height, picture.width, picture.n)[:, :, :3]
    found = []
    for span in page.get_texttrace():
        colour = _rgb(span["color"])
        for text, box in _parts(span["chars"]):
            unseen = (
                span["size"] < _TINY_POINTS
                or span["opacity"] * _CONTRAST < 2
                or _is_unseen(pixels, box, colour)
            )
            placed = _placed(box, turned)
            found.append(_Word(page.number, placed, text, span["type"] == _INVISIBLE, unseen))
    return found


def _placed(box: Box, turned: Any) -> Box:
    """Return a box on the displayed page, given the matrix of its rotation by right angles."""
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
    # A white word over other words still has contrast. Dark words may fill their own boxes.
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
