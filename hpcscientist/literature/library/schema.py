"""The versioned Arrow schemas of papers and symbols, and conversion between rows and records.

The rows of readers are never changed. If several sources have a paper, an additional row merges
them and lists the rows that it is made from (`members`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from hpcscientist.literature.library.keys import address_key, id_keys, title_key
from hpcscientist.literature.sources.base import Abstract
from hpcscientist.records.literature import Formula, Paper, Section, Symbol

VERSION = 1
VERSION_KEY = b"hpcscientist.library_schema"
_INT32 = 2**31 - 1
_INT64 = 2**63 - 1


def _schema(columns: Sequence[tuple[str, Any]]) -> Any:
    return pa.schema(columns, metadata={VERSION_KEY: str(VERSION).encode()})


_TEXTS = pa.list_(pa.string())

PAPERS: Any = _schema(
    [
        ("paper_id", pa.string()),
        ("title", pa.string()),
        ("abstract", pa.string()),
        ("authors", _TEXTS),
        ("year", pa.int32()),
        ("venue", pa.string()),
        ("doi", pa.string()),
        ("arxiv_id", pa.string()),
        ("url", pa.string()),
        ("citations", pa.int64()),
        ("sections", pa.list_(pa.struct([("heading", pa.string()), ("text", pa.string())]))),
        (
            "formulas",
            pa.list_(
                pa.struct(
                    [("text", pa.string()), ("section", pa.string()), ("context", pa.string())]
                )
            ),
        ),
        ("references", _TEXTS),
        ("source", pa.string()),
        ("origin", pa.string()),
        ("reading", pa.int64()),  # number of the reading that gave it; 0: merged from other rows
        ("title_key", pa.uint64()),  # 0: the title is blank
        ("id_keys", pa.list_(pa.uint64())),
        ("members", pa.list_(pa.int64())),  # positions of the rows it is merged from
        ("fragment", pa.bool_()),  # only an abstract, whose paper is another row
    ]
)

SYMBOLS: Any = _schema(
    [
        ("repository", pa.string()),
        ("file", pa.string()),
        ("first_line", pa.int64()),
        ("last_line", pa.int64()),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("signature", pa.string()),
        ("docstring", pa.string()),
        ("code", pa.string()),
        ("reading", pa.int64()),
    ]
)

_OF_PAPER = tuple(Paper.model_fields)
_OF_SYMBOL = tuple(Symbol.model_fields)


def paper_row(paper: Paper, reading: int, members: Sequence[int] = ()) -> dict[str, Any]:
    """Return the row of a paper. Numbers too large for their column become None."""
    row = {name: getattr(paper, name) for name in _OF_PAPER}
    row["year"] = _within(paper.year, _INT32)
    row["citations"] = _within(paper.citations, _INT64)
    row["sections"] = [s.model_dump() for s in paper.sections]
    row["formulas"] = [f.model_dump() for f in paper.formulas]
    row["reading"], row["members"] = reading, list(members)
    row["title_key"], row["id_keys"] = title_key(paper.title), id_keys(paper)
    row["fragment"] = False
    return row


def fragment_row(abstract: Abstract, reading: int) -> dict[str, Any]:
    """Return the row of an abstract that came without its paper."""
    return {
        **dict.fromkeys(("paper_id", "title", "venue", "doi", "arxiv_id"), ""),
        **{name: [] for name in ("authors", "sections", "formulas", "references", "members")},
        "abstract": abstract.text,
        "url": abstract.url,
        "source": "semantic_scholar",
        "origin": abstract.origin,
        "reading": reading,
        "title_key": 0,
        "id_keys": [address_key(abstract.url)],
        "fragment": True,
    }


def text_size(row: dict[str, Any]) -> int:
    """Return roughly how many characters a paper's row has."""
    size = len(row["abstract"]) + sum(map(len, row["references"]))
    size += sum(len(section["text"]) for section in row["sections"])
    return size + sum(len(f["text"]) + len(f["context"]) for f in row["formulas"])


def symbol_row(symbol: Symbol, reading: int) -> dict[str, Any]:
    """Return the row of a symbol."""
    row = {name: getattr(symbol, name) for name in _OF_SYMBOL}
    row["first_line"] = _within(symbol.first_line, _INT64)
    row["last_line"] = _within(symbol.last_line, _INT64)
    row["reading"] = reading
    return row


def to_batch(rows: Sequence[dict[str, Any]], schema: Any) -> Any:
    """Return rows as a record batch. Text that is not valid Unicode is fixed."""
    try:
        return pa.RecordBatch.from_pylist(list(rows), schema=schema)
    except UnicodeEncodeError:  # half a surrogate pair, which JSON and PDFs can contain
        return pa.RecordBatch.from_pylist([_fixed(row) for row in rows], schema=schema)


def paper_of(row: dict[str, Any]) -> Paper:
    """Return the paper of a row."""
    return Paper(
        **{
            **{name: row[name] for name in _OF_PAPER},
            "authors": tuple(row["authors"]),
            "sections": tuple(Section(**s) for s in row["sections"]),
            "formulas": tuple(Formula(**f) for f in row["formulas"]),
            "references": tuple(row["references"]),
        }
    )


def symbol_of(row: dict[str, Any]) -> Symbol:
    """Return the symbol of a row."""
    return Symbol(**{name: row[name] for name in _OF_SYMBOL})


def version_of(schema: Any) -> int | None:
    """Return the version in a schema's metadata; None if another program wrote it."""
    value = (schema.metadata or {}).get(VERSION_KEY, b"")
    return int(value) if value.isdigit() else None


def _within(number: int | None, limit: int) -> int | None:
    return None if number is None or abs(number) > limit else number


def _fixed(value: Any) -> Any:
    """Return a row, or a value in one, with a question mark for every lone surrogate."""
    fix: Callable[[Any], Any] = _fixed
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {name: fix(part) for name, part in value.items()}
        case list() | tuple():
            return [fix(part) for part in value]
    return value
