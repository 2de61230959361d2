"""Makes, writes and opens tantivy's indexes on any file system, and extracts the indexed terms.

Even to open an index for reading, tantivy makes lock files beside it and calls flock. A library may
be on a file system that is read-only or has no flock (Lustre and some NFS without their mount
options). So searches use a view: a folder of links in this machine's temporary folder. It is
removed as soon as the index is open, since tantivy has its files mapped by then.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import tempfile
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hpcscientist.errors import LibraryError
from hpcscientist.literature.library.parts import Positions
from hpcscientist.literature.library.store import Store
from hpcscientist.models.embedding.keywords import identifiers, joined, pieces, words
from hpcscientist.records.literature import Paper, Symbol

POSITION = "position"
PARTIAL = ".partial-"  # prefix of folders that are being written
_TOKENIZER = "spaces"
_HEAP = 64 * 2**20  # bytes of terms in memory before they are written as a segment
_ATTEMPTS = 200  # to remove a view
Document = tuple[int, int, str, Mapping[str, str]]  # position, number, label, terms of fields
LOCK = ".lock"  # suffix of tantivy's lock files
_OWN = ("meta.json", ".managed.json")  # tantivy replaces these; all other files are written once


def schema(fields: Iterable[str]) -> Any:
    """Return the schema of documents with text fields, a position, a number and a label.

    `label` orders documents with equal scores, and `number` distinguishes those of one position.
    """
    import tantivy  # noqa: PLC0415 (heavy)

    builder = tantivy.SchemaBuilder()
    for field in fields:
        builder.add_text_field(field, tokenizer_name=_TOKENIZER, index_option="freq")
    builder.add_unsigned_field(POSITION, stored=True, indexed=True)
    builder.add_unsigned_field("number", stored=True)
    builder.add_text_field("label", stored=True, tokenizer_name="raw", index_option="basic")
    return builder.build()


def write(
    folder: Path,
    fields: Iterable[str],
    removed: Iterable[int],
    added: Iterable[Document],
) -> None:
    """Remove and add documents in the index in `folder`, which may be empty.

    `removed` are positions. One thread writes, so documents keep their order. Raises OSError,
    ValueError.
    """
    import tantivy  # noqa: PLC0415 (heavy)

    index = tantivy.Index(schema(fields), path=str(folder))
    analyzer = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
    index.register_tokenizer(_TOKENIZER, analyzer)
    try:
        _write(index, removed, added)
    except ValueError as error:
        # If tantivy's own thread hits a full disk, tantivy only reports that the writer was killed.
        if "os error" not in str(error) and shutil.disk_usage(folder).free < _HEAP:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise


def _write(index: Any, removed: Iterable[int], added: Iterable[Document]) -> None:
    import tantivy  # noqa: PLC0415 (heavy)

    writer = index.writer(heap_size=_HEAP, num_threads=1)
    for position in removed:
        writer.delete_documents_by_term(POSITION, position)
    for position, number, label, terms in added:
        document = tantivy.Document()
        document.add_unsigned(POSITION, position)
        document.add_unsigned("number", number)
        document.add_text("label", label)
        for field, text in terms.items():
            if text:
                document.add_text(field, text)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()


def open_view(folder: Path) -> tuple[Any, Any]:
    """Return an index as (schema, searcher), in its current state. Raises LibraryError."""
    import tantivy  # noqa: PLC0415 (heavy)

    try:
        with _view() as view, reading(folder):
            _link(folder, view, os.symlink)
            index = tantivy.Index.open(str(view))
            index.config_reader("manual")  # no file watcher: the view is about to be removed
            index.reload()
            return index.schema, index.searcher()
    except OSError as error:
        if error.filename and Path(error.filename).is_relative_to(folder):
            raise unreadable(folder, error) from error
        raise LibraryError(
            f"{tempfile.gettempdir()}: a library cannot be opened without a folder for temporary "
            f"files: {error.strerror or error}; set TMPDIR to one that can be written"
        ) from error


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Turn tantivy's errors for a damaged index into LibraryError; OSErrors of files pass.

    A panic in tantivy raises a BaseException that is not an Exception.
    """
    try:
        yield
    except ValueError as error:
        raise unreadable(folder, error) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise unreadable(folder, ValueError(f"tantivy panics: {error}")) from error


@contextmanager
def _view() -> Iterator[Path]:
    """Yield an empty folder, and remove it afterwards."""
    view = Path(tempfile.mkdtemp(prefix="hpcsci-index-"))
    try:
        yield view
    finally:
        # Tantivy's first reader, which is no longer used, may still make its lock file there.
        for _ in range(_ATTEMPTS):
            shutil.rmtree(view, ignore_errors=True)
            if not view.exists():
                break
            time.sleep(0.01)


def copy_index(source: Path, target: Path) -> None:
    """Make `target` a writable index with the same content; `source` does not change."""
    target.mkdir()
    _link(source, target, _link_or_copy)


@contextmanager
def workplace(near: Path) -> Iterator[Path]:
    """Yield an empty folder in which an index can be written, and remove it afterwards.

    It is in `near`, so that it can be renamed, or in this machine's temporary folder if `near` has
    no flock.
    """
    outer = tempfile.mkdtemp(prefix=PARTIAL, dir=near if _has_flock(near) else None)
    try:
        place = Path(outer, "index")  # permissions by the umask, unlike the outer folder
        place.mkdir()
        yield place
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def move(source: Path, target: Path) -> None:
    """Rename a folder; across file systems, copy it and rename the copy. Raises OSError."""
    for file in [p for p in source.rglob(".tantivy-*.lock") if p.is_file()]:
        file.unlink()
    shutil.rmtree(target, ignore_errors=True)
    if source.stat().st_dev != target.parent.stat().st_dev:
        near = target.with_name(f"{PARTIAL}{target.name}")
        shutil.rmtree(near, ignore_errors=True)
        shutil.copytree(source, near)
        source = near
    mode = source.stat().st_mode & 0o666
    for path in [p for p in source.rglob("*") if p.is_file()]:
        if path.name in _OWN:
            path.chmod(mode)  # tantivy makes them readable only by their owner
        _sync(path)
    source.rename(target)
    _sync(target.parent)


def unreadable(folder: Path, error: Exception) -> LibraryError:
    """Return the error for an index that cannot be read, with the fix."""
    why = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
    return LibraryError(
        f"{folder}: the index cannot be read ({why}); make it anew with "
        f"`hpcsci library build … --out {folder.parent.parent.parent}`"
    )


def _link(source: Path, target: Path, link: Any) -> None:
    for path in source.iterdir():
        if path.name in _OWN:
            shutil.copyfile(path, target / path.name)
        elif path.suffix != LOCK:
            link(path.absolute(), target / path.name)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


def _has_flock(folder: Path) -> bool:
    """Return whether flock works in a folder, by trying it."""
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# The terms of papers, formulas and symbols, field by field, and the weight of each field.
#
# A field's terms are joined by spaces, and the index only splits there. So one place,
# `hpcscientist.models.embedding.keywords`, defines the terms of both the index and the queries.

# A word in a title says more about a paper than one in its abstract, and that more than one among
# ten thousand in its text; BM25 weights are multiplied by these factors.
PAPERS: Mapping[str, float] = MappingProxyType({"title": 2.0, "abstract": 1.0, "body": 0.5})
FORMULAS: Mapping[str, float] = MappingProxyType({"context": 2.0, "formula": 1.0, "title": 0.5})
SYMBOLS: Mapping[str, float] = MappingProxyType(
    {"name": 3.0, "docstring": 1.5, "signature": 1.0, "code": 0.5}
)

Row = Mapping[str, Any]
OF_PAPER = ("paper_id", "title", "abstract", "sections")
OF_FORMULAS = ("paper_id", "title", "formulas")
OF_VECTOR = ("paper_id", "title", "abstract")
SPELLING = "spelling"  # a field of papers that queries do not search: title words as written

_BODY = 200_000  # characters of a paper that are indexed, twice as many as a long article has
_CODE = 10_000
_READ = 4000  # characters of a paper that are embedded, more than models read
_GREEK = re.compile(r"GREEK (?:SMALL|CAPITAL) LETTER (?:FINAL )?(\w+)")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
# Commands for the look of a formula, without meaning.
_LOOKS_TEXT = (
    "left right big bigg Big Bigg mathrm mathbf mathcal mathbb mathit text textbf textit rm bf "
    "quad qquad displaystyle limits nolimits label nonumber begin end aligned align array "
    "operatorname boldsymbol hat bar tilde vec ensuremath"
)
_LOOKS = frozenset(_LOOKS_TEXT.split())
_SIGNS = {
    "∑": " sum ",
    "∏": " prod ",
    "∫": " int ",
    "∂": " partial ",
    "∇": " nabla ",
    "∞": " infty ",
    "√": " sqrt ",
    "∈": " in ",
    "≤": " le ",
    "≥": " ge ",
    "≠": " ne ",
    "≈": " approx ",
    "∝": " propto ",
    "→": " to ",
    "×": " times ",
    "·": " cdot ",
    "ℓ": " ell ",
}


def paper_terms(paper: Row) -> dict[str, str]:
    """Return the terms of a paper's fields; the row needs the columns OF_PAPER."""
    return {
        "title": joined(paper["title"]),
        "abstract": joined(paper["abstract"]),
        "body": joined(_beginning((s["heading"], s["text"]) for s in paper["sections"])),
        SPELLING: " ".join(dict.fromkeys(pieces(paper["title"]))),
    }


def formula_terms(formula: Row, title: str) -> dict[str, str]:
    """Return the terms of a formula's fields: the formula, its context, and its paper's title."""
    return {
        "formula": " ".join(formula_words(formula["text"])),
        "context": joined(f"{formula['section']}\n{formula['context']}"),
        "title": joined(title),
    }


def symbol_terms(symbol: Symbol) -> dict[str, str]:
    """Return the terms of a symbol's fields."""
    return {
        "name": " ".join(identifiers(symbol.name)),
        "signature": " ".join(identifiers(symbol.signature)),
        "docstring": joined(symbol.docstring),
        "code": " ".join(identifiers(symbol.code[:_CODE])),
    }


def formula_words(text: str) -> list[str]:
    """Return the terms of a formula: letters, numbers, and the names of commands and signs.

    `\\alpha` and α are one term, and so are `\\sum` and ∑.
    """
    names = (name.removeprefix("var") for name in _COMMAND.findall(text) if name not in _LOOKS)
    rest = unicodedata.normalize("NFKC", _COMMAND.sub(" ", text))  # italic letters become plain
    return words(f"{' '.join(names)} {rest.translate(_NAMES)}".replace("_", " "))


def body(paper: Paper) -> str:
    """Return the text of a paper's sections, up to the indexed length."""
    return _beginning((section.heading, section.text) for section in paper.sections)


def _beginning(sections: Iterable[tuple[str, str]]) -> str:
    parts, left = [], _BODY
    for heading, text in sections:
        part = f"{heading}\n{text}"[:left]
        parts.append(part)
        left -= len(part)
        if left <= 0:
            break
    return "\n".join(parts)


def vector_texts(store: Store, positions: Positions) -> Iterator[tuple[int, str, str]]:
    """Yield position, id, and the text to embed for each paper.

    The text is title and abstract, or the beginning of the body if there is no abstract.
    """
    for position, row in store.rows(positions, OF_VECTOR):
        text = row["abstract"] or body(store.paper_at(position))
        yield position, row["paper_id"], f"{row['title']}\n{text}"[:_READ]


class _Names(dict[int, str]):
    """A translation table that names Greek letters and operators as in LaTeX; others stay."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        greek = None if character.isascii() else _GREEK.match(unicodedata.name(character, ""))
        name = greek[1].lower() if greek else ""
        said = f" {'lambda' if name == 'lamda' else name} " if greek else None
        self[code] = said or _SIGNS.get(character, character)
        return self[code]


_NAMES = _Names()
