"""`hpcsci paper --trace`: lists each number with its formula, trials, rows and hashes."""

from __future__ import annotations

from collections.abc import Iterator

from hpcscientist.papers.formulas import BadFormula, resolve
from hpcscientist.records.base import Record
from hpcscientist.records.facts import FactSheet, FileHash, TrialRow, with_unit
from hpcscientist.records.manuscript import Manuscript, Number, lines, walk

COLUMNS = ("number", "text", "where", "formula", "what", "trials", "rows", "files")
_HASH = 12  # characters of a hash that a table shows


class TraceRow(Record):
    """One number of a manuscript. `formula` is as written in the text; `facts` are the ids in it.

    `lines` are the lines of the file that a hyperparameter was read from. `problem` says why a
    number cannot be traced, or is "".
    """

    number: int
    section: str
    paragraph: int
    formula: str
    text: str
    value: float | None = None
    unit: str = ""
    label: str = ""
    method: str = ""
    facts: tuple[str, ...] = ()
    trials: tuple[TrialRow, ...] = ()
    files: tuple[FileHash, ...] = ()
    lines: tuple[int, int] | None = None
    paper: str | None = None
    problem: str = ""


def trace(manuscript: Manuscript, sheet: FactSheet) -> tuple[TraceRow, ...]:
    """Return all numbers of a manuscript in the order of its text."""
    return tuple(_rows(manuscript, sheet))


def _rows(manuscript: Manuscript, sheet: FactSheet) -> Iterator[TraceRow]:
    count = 0
    for place, line in lines(manuscript):
        for part in walk(line):
            if not isinstance(part, Number):
                continue
            count += 1
            where = {
                "number": count,
                "section": place.section,
                "paragraph": place.paragraph,
                "formula": str(part.ref),
                "facts": part.ref.ids,
            }
            try:
                quantity = resolve(part.ref, sheet)
            except BadFormula as error:
                yield TraceRow.model_validate(where | {"text": "", "problem": str(error)})
                continue
            fact, sources = quantity.fact, [p.source for p in quantity.parts]
            read = [source for source in sources if source.lines is not None]
            yield TraceRow.model_validate(
                where
                | {
                    "text": fact.text,
                    "value": fact.value,
                    "unit": fact.unit,
                    "label": fact.label,
                    "method": "; ".join(dict.fromkeys(s.method for s in sources if s.method)),
                    "trials": tuple(dict.fromkeys(r for s in sources for r in s.trials)),
                    "files": tuple(dict.fromkeys(f for s in sources for f in s.files)),
                    "lines": read[0].lines if read else None,
                    "paper": next((s.paper for s in sources if s.paper), None),
                }
            )


def as_table(rows: tuple[TraceRow, ...]) -> list[tuple[str, ...]]:
    """Return one table row for each number, with the columns of `COLUMNS`."""
    return [
        (
            str(row.number),
            with_unit(row.text, row.unit) if not row.problem else f"? {row.problem}",
            f"{row.section} {row.paragraph}",
            row.formula,
            row.label,
            ", ".join(f"{r.trial} ({r.seed}): {r.value:g}" for r in row.trials),
            ", ".join(r.row_hash[:_HASH] for r in row.trials),
            ", ".join(_file(file, row) for file in row.files),
        )
        for row in rows
    ]


def _file(file: FileHash, row: TraceRow) -> str:
    place = f":{row.lines[0]}" if row.lines else ""
    return f"{file.file}{place} {file.sha256[:_HASH]}"
