"""Reads a PDF file through MuPDF's own interface, with as little of PyMuPDF as possible.

Three parts of PyMuPDF take as long as reading the text itself, and are avoided: Python objects for
every span (`get_text("dict")`; MuPDF's own JSON has lines), its bookkeeping of documents and pages,
and, once per process, the neural network for layouts that PyMuPDF 2 loads. So this module uses the
lower interface `pymupdf.mupdf`, which has the functions of MuPDF's C interface under their own
names.
"""

from __future__ import annotations

import gc
import importlib
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hpcscientist.errors import LibraryError
from hpcscientist.system.lean import without

SCALE = 8  # MuPDF rounds coordinates to whole numbers; these are eighths of a point
_LEFT_OUT = ("pymupdf.layout", "pymupdf4llm")
_BUFFER = 2**17  # bytes; more than a page needs, so that no buffer has to grow


class UnreadablePdf(Exception):
    """A file or a page that MuPDF cannot read."""


class Box(msgspec.Struct, gc=False):
    """A position and size, in eighths of a point from the page's top left."""

    x: int
    y: int
    w: int
    h: int


class Font(msgspec.Struct, frozen=True, gc=False):
    """The font of a line's beginning; `size` in eighths of a point."""

    name: str
    weight: str
    style: str
    size: int


class Row(msgspec.Struct, gc=False):
    """A line as MuPDF reports it; a line without letters has no font."""

    bbox: Box
    text: str
    font: Font = Font("", "", "", 0)


class TextBlock(msgspec.Struct, gc=False):
    """A block of lines; a picture has none."""

    lines: list[Row] = []


class _Blocks(msgspec.Struct, gc=False):
    blocks: list[TextBlock]


_READ = msgspec.json.Decoder(_Blocks)  # takes a third of the time of decoding to dictionaries
# MuPDF writes control characters in a font's name as \x01, which is not JSON.
_HEXADECIMAL = re.compile(r"(?<!\\)((?:\\\\)*)\\x([0-9A-Fa-f]{2})")


class Sheet(NamedTuple):
    """A page's height, and its content as MuPDF's JSON."""

    height: int
    data: bytes

    @property
    def blocks(self) -> list[TextBlock]:
        """Blocks of lines. Raises Unreadable."""
        if not self.data:
            return []
        try:
            return _READ.decode(self.data).blocks
        except (ValueError, msgspec.MsgspecError):  # a font's name or a text is not valid Unicode
            return _fixed(self.data)


def _fixed(data: bytes) -> list[TextBlock]:
    text = _HEXADECIMAL.sub(r"\1\\u00\2", data.decode("utf-8", "replace"))
    try:
        return msgspec.convert(json.loads(text, strict=False), _Blocks).blocks
    except (ValueError, msgspec.MsgspecError) as error:
        raise UnreadablePdf(f"MuPDF's account of a page is damaged: {error}") from error


@cache
def pymupdf() -> Any:
    """Return PyMuPDF, with its messages turned off. Raises LibraryError if it is not installed."""
    try:
        with without(*(() if "pymupdf" in sys.modules else _LEFT_OUT)):
            found: Any = importlib.import_module("pymupdf")  # an extra, and slow
    except ImportError as error:
        raise LibraryError(
            "PDF files are read with PyMuPDF, which is not installed: "
            "pip install 'hpcscientist[pdf]'"
        ) from error
    found.TOOLS.mupdf_display_errors(False)
    found.TOOLS.mupdf_display_warnings(False)
    gc.freeze()  # the modules' many objects stay alive, and each collection would scan them
    return found


class PdfDocument:
    """An open PDF. Raises Unreadable, and LibraryError if PyMuPDF is not installed.

    `pages` is 0 if the file needs a password; an empty one is tried first.
    """

    def __init__(self, path: Path) -> None:
        known = pymupdf()
        self._mupdf = known.mupdf
        self._options = self._mupdf.FzStextOptions()
        # As for PyMuPDF's plain text, but ligatures become letters.
        self._options.flags = known.TEXTFLAGS_TEXT & ~known.TEXT_PRESERVE_LIGATURES
        with self._told():
            self._pdf = self._open(path)
            self._document = self._pdf.super()
            self.encrypted = bool(
                self._mupdf.fz_needs_password(self._document)
                and not self._mupdf.fz_authenticate_password(self._document, "")
            )
            self.pages: int = 0 if self.encrypted else self._mupdf.fz_count_pages(self._document)

    def _open(self, path: Path) -> Any:
        mupdf, name = self._mupdf, str(path)
        if name.isprintable():
            return mupdf.pdf_open_document(name)
        # MuPDF cannot open a path that is not UTF-8.
        buffer = mupdf.fz_new_buffer_from_copied_data(path.read_bytes())
        return mupdf.pdf_open_document_with_stream(mupdf.fz_open_buffer(buffer))

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (self._mupdf.FzErrorBase, RuntimeError, ValueError) as error:
            raise UnreadablePdf(str(error).partition(": ")[2] or str(error)) from error

    @property
    def fixed(self) -> bool:
        """Whether MuPDF had to repair a damaged file."""
        return bool(self._mupdf.pdf_was_repaired(self._pdf))

    def metadata(self, key: str) -> str:
        """Return an entry of the file's metadata ("Title", "Author"); "" if there is none."""
        try:
            with self._told():
                found: str = self._mupdf.fz_lookup_metadata2(self._document, f"info:{key}")
                return found
        except UnreadablePdf:
            return ""

    def sheet(self, number: int) -> Sheet:
        """Read the page of a number, from 0. Raises Unreadable."""
        mupdf = self._mupdf
        with self._told():
            page = mupdf.fz_load_page(self._document, number)
            box = mupdf.fz_bound_page(page)
            text = mupdf.FzStextPage(page, self._options)
            buffer = mupdf.fz_new_buffer(_BUFFER)
            out = mupdf.FzOutput(buffer)
            mupdf.fz_print_stext_page_as_json(out, text, SCALE)
            out.fz_close_output()
            return Sheet(int((box.y1 - box.y0) * SCALE), mupdf.fz_buffer_extract(buffer))
