"""Reads papers from PDF files with PyMuPDF: title, abstract, sections, formulas, references.

At most PAGES pages and about CHARACTERS characters of a file are read. A file whose pages have no
text is kept with its title only, if its metadata have one. The caller limits the time: one call
reads one file, and may run in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hpcscientist.literature.sources import ids
from hpcscientist.literature.sources.base import Item, trouble
from hpcscientist.literature.sources.pdf import body, front
from hpcscientist.literature.sources.pdf import document as documents
from hpcscientist.literature.sources.pdf.body import BodyReading, body_type, sections
from hpcscientist.literature.sources.pdf.document import PdfDocument, Sheet, UnreadablePdf
from hpcscientist.literature.sources.pdf.front import find_ids
from hpcscientist.literature.sources.pdf.lines import (
    PageLine,
    PageText,
    Piece,
    Spelled,
    page_text,
    read_order,
)
from hpcscientist.literature.sources.text import shown
from hpcscientist.records.literature import Paper

PAGES = 500
CHARACTERS = 3_000_000
_TOGETHER = 16  # pages

_OCR = "run OCR first (ocrmypdf FILE OUT)"


def prepare() -> None:
    """Import PyMuPDF. Raises LibraryError if it is not installed."""
    documents.pymupdf()


def read(path: Path, origin: str) -> Iterator[Item]:
    """Yield the paper in a PDF file, and Troubles for the parts that could not be read.

    Raises LibraryError if PyMuPDF is not installed, OSError if the file cannot be opened.
    """
    with path.open("rb") as file:
        if b"%PDF-" not in file.read(1024):
            empty = path.stat().st_size == 0
            yield trouble(origin, "the file is empty" if empty else "not a PDF file")
            return
    try:
        yield from _document(PdfDocument(path), path, origin)
    except UnreadablePdf as error:
        yield trouble(origin, f"damaged: {error}")


def _document(document: PdfDocument, path: Path, origin: str) -> Iterator[Item]:
    if document.encrypted:
        yield trouble(origin, "encrypted: it opens with a password only")
        return
    if document.pages == 0:
        yield trouble(origin, "damaged: it has no pages")
        return
    pages, damaged, characters = [], 0, 0
    for page in _pages(document):
        damaged += page is None
        pages.append(page or PageText(height=0))
        characters += pages[-1].characters
        if characters > CHARACTERS:
            break
    if characters == 0:
        yield from _without_text(document, path, origin, damaged == len(pages))
        return
    yield _paper(document, pages, path, origin)
    blank = sum(not page.blocks for page in pages)
    if len(pages) < document.pages:
        count = f"{len(pages)} of {document.pages}"
        yield trouble(origin, f"long: only the first {count} pages were read")
    if damaged:
        yield trouble(origin, f"{damaged} of {len(pages)} pages are damaged and were not read")
    elif document.fixed:
        yield trouble(origin, "damaged: fixed as far as that goes, parts of it may be missing")
    elif 2 * blank > len(pages):
        yield trouble(origin, f"no text on {blank} of its {len(pages)} pages; {_OCR}")


def _pages(document: PdfDocument) -> Iterator[PageText | None]:
    """Yield the pages; None for a damaged one.

    Several pages are read before any is parsed: MuPDF and Python push each other's code out of the
    processor's caches.
    """
    count = min(document.pages, PAGES)
    for first in range(0, count, _TOGETHER):
        sheets = [_sheet(document, at) for at in range(first, min(count, first + _TOGETHER))]
        for sheet in sheets:
            yield _page(sheet) if sheet else None


def _sheet(document: PdfDocument, number: int) -> Sheet | None:
    try:
        return document.sheet(number)
    except UnreadablePdf:
        return None


def _page(sheet: Sheet) -> PageText | None:
    try:
        return page_text(sheet)
    except UnreadablePdf:
        return None


def _without_text(document: PdfDocument, path: Path, origin: str, damaged: bool) -> Iterator[Item]:
    if damaged or document.fixed:
        yield trouble(origin, "damaged: nothing can be read on its pages")
        return
    title = front.sane(document.metadata("Title"))
    if not title or (" " not in title and title.isascii()):  # one word names a picture
        yield trouble(origin, f"no text on its pages, and no title; {_OCR}")
        return
    known = find_ids(path, "", ())
    yield Paper(
        paper_id=ids.paper_id(title, known.year, (), arxiv_id=known.arxiv_id),
        title=title,
        year=known.year,
        arxiv_id=known.arxiv_id,
        source="pdf",
        origin=origin,
    )
    yield trouble(origin, f"no text on its pages: known by its title only; {_OCR}")


def _paper(document: PdfDocument, pages: Sequence[PageText], path: Path, origin: str) -> Paper:
    first = "\n".join(line.text for block in pages[0].blocks for line in block)
    known = find_ids(path, first, pages[0].sideways)
    pieces = read_order(pages)
    on_first = [piece for piece in pieces if piece.page == 0]
    named = front.find_title(on_first, document.metadata("Title"))
    below = _take_title(on_first, named)
    size, bold = body_type(pieces)
    spelled = Spelled.of("\n".join([row.text for piece in pieces for row in piece.rows]))
    found = BodyReading(size, bold, spelled).read([piece for piece in pieces if piece.rows])
    all_parts = front.with_front(found.parts)
    abstract, parts = front.find_abstract(all_parts)
    authors = front.find_authors(below, document.metadata("Author"))
    title = named.title or shown(Path(path.stem))
    cited = [
        entry for part in found.parts if part.pieces for entry in body.entries(part.pieces, spelled)
    ]
    return Paper(
        paper_id=ids.paper_id(title, known.year, authors, doi=known.doi, arxiv_id=known.arxiv_id),
        title=title,
        abstract=abstract,
        authors=authors,
        year=known.year,
        doi=known.doi,
        arxiv_id=known.arxiv_id,
        sections=sections(parts),
        formulas=tuple(found.formulas),
        references=tuple(cited),
        source="pdf",
        origin=origin,
    )


def _take_title(pieces: Sequence[Piece], named: front.Named) -> list[PageLine]:
    """Remove the title's rows from the pieces, and return the rows below them."""
    taken = set(named.rows)
    below: list[PageLine] = []
    for p, piece in enumerate(pieces):
        if not taken or (p, 0) > named.rows[-1]:
            below += piece.rows
        piece.rows = [row for r, row in enumerate(piece.rows) if (p, r) not in taken]
    return below
