"""Reads sets of papers with human scores and decisions.

Two layouts are supported. Ours: `labels.jsonl`, one line per paper: `{"id", "text", "scores",
"decision"}`, where `text` is a file in the folder (PDF, LaTeX or text) and `decision` is accept or
reject. The AI Scientist's review bench: `ratings_subset.tsv` (or another .tsv), whose first column
is the paper's id, with columns of ratings named 0, 1, … and `decision`; the parsed papers are
`iclr_parsed/ID.txt`.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError

from hpcscientist.errors import LibraryError, UsageError
from hpcscientist.files.handed import read_regular
from hpcscientist.files.text import one_line
from hpcscientist.records.base import Record
from hpcscientist.records.reviews import Decision
from hpcscientist.reviews import paper
from hpcscientist.reviews.paper import PaperText

_LINES: Final = "labels.jsonl"
_PARSED: Final = "iclr_parsed"
_LEAST: Final = 4  # papers of each decision: two to fit and two to hold out


class _Label(Record):
    id: str = Field(min_length=1)
    text: str = Field(min_length=1)
    scores: tuple[float, ...] = ()
    decision: Decision


@dataclass(frozen=True, slots=True)
class LabelledPaper:
    """A paper, its human scores, and whether it was accepted."""

    paper_id: str
    file: Path
    scores: tuple[float, ...]
    accepted: bool

    def read(self) -> PaperText:
        """Return the paper's text under its id. Raises UsageError, LibraryError."""
        found = paper.read(self.file)
        return PaperText(
            name=self.paper_id,
            title=found.title,
            sections=found.sections,
            sha256=found.sha256,
            findings=found.findings,
            troubles=found.troubles,
        )


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """A loaded set. `missing` names the table's papers whose text does not exist."""

    name: str
    sha256: str
    papers: tuple[LabelledPaper, ...]
    missing: tuple[str, ...]

    def halves(self, seed: int) -> tuple[tuple[LabelledPaper, ...], tuple[LabelledPaper, ...]]:
        """Return two halves with equally many accepted papers, up to one.

        The split depends only on the seed and the papers' ids, not on their order.
        """
        first, second = list[LabelledPaper](), list[LabelledPaper]()
        for kind in (True, False):
            of = [p for p in self.papers if p.accepted is kind]
            of.sort(key=lambda p: hashlib.sha256(f"{seed}/{p.paper_id}".encode()).digest())
            # An odd accepted paper goes to the first half, an odd rejected one to the second.
            (first if kind else second).extend(of[::2])
            (second if kind else first).extend(of[1::2])
        return tuple(first), tuple(second)


def read(folder: Path, limit: int = 0, seed: int = 0) -> LabelledSet:
    """Read a labelled set of at most `limit` papers (0: all). Raises UsageError.

    If limited, it holds equally many papers of each decision if there are enough.
    """
    lines = folder / _LINES
    tables = sorted(folder.glob("*.tsv"))
    try:
        if lines.is_file():
            data = read_regular(lines, 2**28)
            found = list(_of_lines(lines, data))
        elif tables:
            table = next((t for t in tables if t.name == "ratings_subset.tsv"), tables[0])
            data = read_regular(table, 2**28)
            found = list(_of_table(table, data))
        else:
            raise UsageError(
                f"--labelled {folder}: has neither {_LINES} nor a table of ratings (.tsv); see "
                "hpcscientist/reviews/README.md"
            )
    except OSError as error:
        raise UsageError(f"--labelled {folder}: cannot be read: {error.strerror}") from error
    there = [p for p in found if p.file.exists()]
    missing = tuple(p.paper_id for p in found if not p.file.exists())
    kept = _limited(there, limit, seed)
    for kind, word in ((True, "accepted"), (False, "rejected")):
        count = sum(p.accepted is kind for p in kept)
        if count < _LEAST:
            raise UsageError(
                f"--labelled {folder}: {count} {word} papers with a text, and at least {_LEAST} "
                "are needed; add some, or raise --limit"
            )
    return LabelledSet(
        folder.resolve().name, hashlib.sha256(data).hexdigest(), tuple(kept), missing
    )


def _limited(papers: list[LabelledPaper], limit: int, seed: int) -> list[LabelledPaper]:
    if not limit or limit >= len(papers):
        return papers
    order = {p.paper_id: hashlib.sha256(f"{seed}/{p.paper_id}".encode()).digest() for p in papers}
    ranked = sorted(papers, key=lambda p: order[p.paper_id])
    ups = [p for p in ranked if p.accepted]
    downs = [p for p in ranked if not p.accepted]
    room = min(len(ups), max(limit // 2, limit - len(downs)))
    chosen = {p.paper_id for p in (*ups[:room], *downs[: limit - room])}
    return [p for p in papers if p.paper_id in chosen]


def _of_lines(path: Path, data: bytes) -> Iterator[LabelledPaper]:
    seen = set[str]()
    for number, text in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        if not text.strip():
            continue
        try:
            label = _Label.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise UsageError(f"{path}:{number}: {where}: {one_line(first['msg'])}") from error
        if label.id in seen:
            raise UsageError(f"{path}:{number}: {label.id!r} is there already; give another id")
        seen.add(label.id)
        file = path.parent / label.text
        if not file.resolve().is_relative_to(path.parent.resolve()):
            raise UsageError(f"{path}:{number}: text: {label.text!r} leads out of the folder")
        yield LabelledPaper(label.id, file, label.scores, label.decision == "accept")


def _of_table(path: Path, data: bytes) -> Iterator[LabelledPaper]:
    rows = csv.reader(data.decode("utf-8", "replace").splitlines(), delimiter="\t")
    header = next(rows, [])
    if "decision" not in header:
        raise UsageError(f"{path}: has no column 'decision'; see hpcscientist/reviews/README.md")
    at = header.index("decision")
    ratings = [place for place, name in enumerate(header) if name.isdigit()]
    seen = set[str]()
    for number, row in enumerate(rows, start=2):
        if len(row) <= at or row[at] == "Unknown" or not row[0] or row[0] in seen:
            continue  # withdrawn, undecided, or listed twice
        seen.add(row[0])
        scores = []
        for place in ratings:
            if place < len(row) and row[place].strip().lower() not in ("", "nan"):
                try:
                    scores.append(float(row[place]))
                except ValueError as error:
                    raise UsageError(
                        f"{path}:{number}: column {header[place]}: {row[place]!r} is no number"
                    ) from error
        file = path.parent / _PARSED / f"{row[0]}.txt"
        yield LabelledPaper(row[0], file, tuple(scores), row[at].startswith("Accept"))


def readable(papers: tuple[LabelledPaper, ...]) -> tuple[list[PaperText], list[str]]:
    """Read papers; return the readable ones, and why the others cannot be read."""
    found, lost = list[PaperText](), list[str]()
    for one in papers:
        try:
            found.append(one.read())
        except (UsageError, LibraryError) as error:
            lost.append(one_line(f"{one.paper_id}: {error}"))
    return found, lost
