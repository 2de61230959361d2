"""PDF files of every kind that a folder of papers holds, the same for the same seed.

Whole papers in one column and in two, with titles in several languages; scanned pages, which are
pictures of text; files with a password; and files that were cut off, are empty, or are no PDFs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks.library.paper import paper_document, write_paper
from benchmarks.library.typesetting import mupdf
from benchmarks.library.wording import TITLES, Wording, word_paper

PdfKind = Literal["paper", "scanned", "encrypted", "truncated", "empty", "other"]
_BROKEN: Final[tuple[PdfKind, ...]] = ("scanned", "encrypted", "truncated", "empty", "other")
_DPI: Final = 60


@dataclass(frozen=True, slots=True)
class Made:
    """A file that was made. `wording` is what a reader should find in it; None: nothing."""

    path: Path
    kind: PdfKind
    wording: Wording | None


def write_pdfs(folder: Path, count: int, seed: int = 0, broken_every: int = 20) -> list[Made]:
    """Write `count` files into a folder, one in `broken_every` of them no readable paper.

    0 stands for none of those. About 0.2 s and 180 KB a file. Raises LibraryError without
    PyMuPDF, OSError on a full disk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for number in range(count):
        path = folder / f"paper-{number:05d}.pdf"
        broken = broken_every and number % broken_every == broken_every - 1
        kind = _BROKEN[number // broken_every % len(_BROKEN)] if broken else "paper"
        made.append(write_pdf(path, kind, seed + number))
    return made


def write_pdf(path: Path, kind: PdfKind, seed: int, columns: int = 0) -> Made:
    """Write one file. `columns` 0 stands for one or two, by the seed."""
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "other":
        path.write_text("<!DOCTYPE html><title>Sign in to read this article</title>\n")
    else:
        title = TITLES[seed // 7 % len(TITLES)] if seed % 7 == 6 else ""
        wording = word_paper(seed, title)
        columns = columns or 1 + seed % 2
        if kind == "paper":
            write_paper(path, wording, columns)
            return Made(path, kind, wording)
        _write_spoiled(path, kind, wording, columns)
    return Made(path, kind, None)


def _write_spoiled(path: Path, kind: PdfKind, wording: Wording, columns: int) -> None:
    if kind == "truncated":
        write_paper(path, wording, columns)
        path.write_bytes(path.read_bytes()[:2_000])
        return
    document = paper_document(wording, columns)
    if kind == "scanned":
        document, whole = _scanned(document), document
        whole.close()
    # A file that a password opens; its owner's password alone keeps nobody from reading.
    options = {"encryption": 5, "user_pw": "secret", "owner_pw": "owner"}
    document.save(path, deflate=True, no_new_id=True, **(options if kind == "encrypted" else {}))
    document.close()


def _scanned(document: Any) -> Any:
    pictures = mupdf().open()
    for page in list(document)[:2]:
        pixels = page.get_pixmap(dpi=_DPI, colorspace="gray")
        copy = pictures.new_page(width=page.rect.width, height=page.rect.height)
        copy.insert_image(copy.rect, pixmap=pixels)
    return pictures
