"""`hpcsci results` for programs: writes rows as JSON, CSV or Arrow; `report.table` is for people.

A number that was not measured is null or empty, never 0 or NaN. The caller decides which rows are
written. Titles and reasons contain words of models and of candidate code: terminal control
characters are removed from them in every format, and in CSV what looks like a formula is marked as
text. JSON and CSV are UTF-8 in any locale.
"""

from __future__ import annotations

import csv as csv_writer
import io
import json as json_writer
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TextIO, get_args

from hpcscientist.files.text import printable
from hpcscientist.records.findings import ResultRow

if TYPE_CHECKING:
    import pyarrow as pa


Format = Literal["json", "csv", "arrow"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)

_FIELDS = tuple(name for name, field in ResultRow.model_fields.items() if not field.exclude)
_LISTS = {"parent_ids"}
_WHOLE = {"round", "n", "attempts"}
_TRUTHS = {"confirmed", "only_knobs"}
_FORMULA = tuple("=+-@＝＋－＠")  # characters with which a spreadsheet formula may begin
_WORDS = {"idea_id", "title", "status", "reason", "finding", "metric", "direction"}


def write(rows: Sequence[ResultRow], form: Format, binary: BinaryIO) -> None:
    """Write rows in one format."""
    if form == "arrow":
        arrow(rows, binary)
    else:
        whole = io.StringIO()
        (json if form == "json" else csv)(rows, whole)
        binary.write(whole.getvalue().encode())


def json(rows: Sequence[ResultRow], stream: TextIO) -> None:
    """Write an array with one object per row, its fields in the order of `ResultRow`."""
    json_writer.dump(
        [plain(row) for row in rows], stream, indent=2, ensure_ascii=False, allow_nan=False
    )
    stream.write("\n")


def csv(rows: Sequence[ResultRow], stream: TextIO) -> None:
    """Write comma-separated values: nulls are empty, parents are joined by spaces."""
    writer = csv_writer.writer(stream, lineterminator="\n")
    writer.writerow(_FIELDS)
    for row in rows:
        writer.writerow([_cell(name, value) for name, value in plain(row).items()])


def arrow(rows: Sequence[ResultRow], stream: BinaryIO) -> None:
    """Write an Arrow IPC stream of `as_arrow`."""
    import pyarrow as pa  # noqa: PLC0415  (the other formats do without)

    found = as_arrow(rows)
    with pa.ipc.new_stream(stream, found.schema) as writer:
        writer.write_table(found)


def as_arrow(rows: Sequence[ResultRow]) -> pa.Table:
    """Return rows as a table; columns keep their type even if every value is null."""
    import pyarrow as pa  # noqa: PLC0415  (as above)

    schema = pa.schema([(name, _arrow_type(name, pa)) for name in _FIELDS])
    return pa.Table.from_pylist([plain(row) for row in rows], schema=schema)


def plain(row: ResultRow) -> dict[str, Any]:
    """Return a row as JSON values; a number that is not finite becomes null."""
    return {name: _value(value) for name, value in row.model_dump(mode="json").items()}


def _value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return printable(value) if isinstance(value, str) else value


def _cell(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = " ".join(value) if isinstance(value, list) else value
    if name in _WORDS | _LISTS and text and text.startswith(_FORMULA):
        return f"'{text}"
    return text


def _arrow_type(name: str, pa: Any) -> Any:
    if name in _LISTS:
        return pa.list_(pa.string())
    if name in _WHOLE:
        return pa.int64()
    if name in _TRUTHS:
        return pa.bool_()
    return pa.string() if name in _WORDS else pa.float64()
