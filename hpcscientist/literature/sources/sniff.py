"""Recognises the type of a file by its content."""

from __future__ import annotations

import io
import itertools
import re
import tarfile
from pathlib import Path
from typing import Any

from hpcscientist.literature.sources import code, lines
from hpcscientist.literature.sources.base import FileKind
from hpcscientist.literature.sources.records import jsonl, openalex

ACCEPTED = (
    "PDF, BibTeX, arXiv metadata (JSON Lines, Atom, OAI-PMH), Semantic Scholar and OpenAlex "
    "(JSON Lines), each also as .gz, LaTeX (.tex, .tar, .tar.gz) and folders of Python code"
)
LATEX_SUFFIXES = (".tex", ".ltx", ".latex")
BIBTEX_SUFFIXES = (".bib", ".bibtex")
# Suffixes that promise a type that we read; .json and .gz may well hold something else.
_PROMISED = frozenset({".pdf", ".jsonl", ".ndjson", ".tar", ".tgz"}).union(
    LATEX_SUFFIXES, BIBTEX_SUFFIXES
)
_OTHER_JSON = "JSON of a shape that is not known"
_DAMAGED = "gzip data that is damaged from its beginning; fetch it again"
HEAD_BYTES = 64 * 2**10
_SCREENED = 1024
_LINES = 100  # to look at if the first does not show the kind

_COMMENTS = re.compile(r"\A(?:\s*%[^\n]*\n)+\s*")
_BIBTEX = re.compile(r"\s*@[A-Za-z]+\s*[{(]")
_MAIN = re.compile(r"^[^%\n]*\\(?:documentclass|documentstyle)\b", re.MULTILINE)
_STANDALONE = re.compile(r"\\documentclass\s*(?:\[[^\]]*\])?\s*\{(?:standalone|subfiles)\}")
_SIGNATURES = (
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%!PS", "PostScript; convert it to PDF first"),
    (b"AT&TFORM", "DjVu; convert it to PDF first"),
    (b"\xd0\xcf\x11\xe0", "an old Office document; export it as PDF"),
    (b"BZh", "bzip2 data; unpack it first"),
    (b"\xfd7zXZ", "xz data; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstandard data; unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive; unpack it first"),
    (b"Rar!", "a RAR archive; unpack it first"),
    (b"PAR1", "Parquet; export it as JSON Lines"),
    (b"ARROW1", "Arrow; export it as JSON Lines"),
    (b"SQLite format 3", "an SQLite database; export it as JSON Lines"),
)


def kind_of(path: Path) -> tuple[FileKind | None, str]:
    """Return a file's kind, or None and a description of what it is. Raises OSError."""
    packed = lines.is_gzip(path)
    with lines.open_plain(path) as file:
        try:
            head = _head(file)
        except lines.DAMAGED_GZIP:
            return None, _DAMAGED
    if not head:
        return None, "an empty file"
    if b"%PDF-" in head[:_SCREENED]:
        return ("pdf", "") if not packed else (None, "a PDF in gzip; unpack it first")
    if is_tar(head):
        return "latex", ""
    for signature, name in _SIGNATURES:
        if head.startswith(signature):
            return None, name
    return _kind_of_text(path, head)


def broken_promise(path: Path, what: str) -> str:
    """Return the problem of a file whose name promises one type although it is `what`.

    "" if its name promises no type that we read.
    """
    name = path.name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    broken_json = suffix == ".json" and what != _OTHER_JSON
    if what == _DAMAGED or suffix in _PROMISED or broken_json:
        return f"is called {suffix or '.gz'}, and is {what}"
    return ""


def _head(file: io.BufferedReader) -> bytes:
    """Return the first bytes of a file; fewer if it is a gzip file with damage after them."""
    head = b""
    while len(head) < HEAD_BYTES:
        try:
            more = file.read1(HEAD_BYTES - len(head))
        except lines.DAMAGED_GZIP:
            if head:
                break
            raise
        if not more:
            break
        head += more
    return head


def is_tar(head: bytes) -> bool:
    """Return whether a file that begins with `head` is a tar archive."""
    try:
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "replace")
    except (tarfile.HeaderError, ValueError):
        return False
    return True


def _kind_of_text(path: Path, head: bytes) -> tuple[FileKind | None, str]:
    text = lines.decode(head)[0].lstrip("\ufeff \t\r\n")
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix in code.PYTHON:
        return "code", ""
    if text.startswith(("{", "[")) and suffix not in BIBTEX_SUFFIXES + LATEX_SUFFIXES:
        kind = _kind_of_json(text) or _kind_of_later_lines(path, text)
        return kind, "" if kind else _OTHER_JSON
    if text.startswith("<"):
        return _kind_of_xml(text)
    begin = _COMMENTS.sub("", text)
    if suffix in BIBTEX_SUFFIXES or _BIBTEX.match(begin):
        return "bibtex", ""
    if suffix in LATEX_SUFFIXES or (begin.startswith("\\") and _MAIN.search(begin)):
        return "latex", ""
    return None, "text of no known kind" if _is_text(head) else "binary data"


def _kind_of_xml(text: str) -> tuple[FileKind | None, str]:
    if re.search(r"<(?:\w+:)?(?:feed|OAI-PMH|ListRecords)\b", text):
        return "arxiv", ""
    page = re.match(r"<!doctype html|<html", text, re.IGNORECASE)
    return None, "a web page and no document" if page else "XML that is not arXiv's"


def _is_text(head: bytes) -> bool:
    return b"\0" not in head[:_SCREENED] or bool(lines.wide_encoding(head))


def _kind_of_json(text: str) -> FileKind | None:
    record = next(jsonl.unwrapped(jsonl.first_value(text)), None)
    if record is not None:
        return _kind_of_record(record)
    # The first record is longer than the head, or damaged.
    named = re.findall(r'"(\w+)"\s*:', text)
    return _kind_of_record(dict.fromkeys(named, _seen_id(text)))


def _kind_of_later_lines(path: Path, head: str) -> FileKind | None:
    """Return the kind of later records if the first one is damaged or not whole in `head`."""
    if jsonl.first_value(head) is not None:
        return None
    texts = (item.text for item in lines.read_lines(path, "") if isinstance(item, lines.TextLine))
    for text in itertools.islice(texts, _LINES):
        record = next(jsonl.unwrapped(jsonl.first_value(text)), None)
        kind = None if record is None else _kind_of_record(record)
        if kind is not None:
            return kind
    return None


def _seen_id(text: str) -> str:
    found = re.search(r'"id"\s*:\s*"([^"]*)"', text)
    return found.group(1) if found else ""


def _kind_of_record(record: dict[str, Any]) -> FileKind | None:
    keys = {str(k).lower() for k in record}
    if {"paper_id", "title", "source", "origin"} <= keys:
        return "online"
    if "abstract_inverted_index" in keys or openalex.work_id(record.get("id")):
        return "openalex"
    if keys & {"corpusid", "paperid", "citedpaper", "citingpaper", "citingcorpusid"}:
        return "semantic_scholar"
    if "externalids" in keys and "title" in keys:
        return "semantic_scholar"
    if "id" in keys and keys & {"categories", "authors_parsed", "update_date", "journal-ref"}:
        return "arxiv"
    return None


def is_main(path: Path) -> bool:
    """Return whether a LaTeX file is a main file; a standalone figure is not. Raises OSError."""
    with lines.open_plain(path) as file:
        try:
            text = lines.decode(_head(file))[0]
        except lines.DAMAGED_GZIP:
            return False
    return is_main_text(text)


def is_main_text(text: str) -> bool:
    """Return whether a LaTeX text is that of a main file."""
    return _MAIN.search(text) is not None and _STANDALONE.search(text) is None
