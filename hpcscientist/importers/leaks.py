"""Finds labels that can be derived from what a candidate sees.

Input columns, row order, ids, times, file names, rows that also occur in the training data, and
leftover files: each is tried as a candidate could, with what the training data reveal. A leak is
reported with its accuracy. It may be the task itself if that is easy; someone who knows the task
can tell.
"""

from __future__ import annotations

import csv
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import StatisticsError, correlation

from hpcscientist.files.hashing import tree_files

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_MOST_ROWS = 50_000
_MOST_BYTES = 256 * 2**20
_RIGHT = 0.98  # share of labels from which a leak is reported
_CLASSES = 50  # a label with more values is a number, or free text
_SAMPLE = re.compile(r"sample|submission", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9.]+")


@dataclass(frozen=True, slots=True)
class Leak:
    """A way to derive a label: `place` says where, `how` what was found."""

    place: str
    how: str


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    columns: Mapping[str, Sequence[str]]

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values()), ()))


def search(train: Path, asked: Path, labels: Path) -> list[Leak]:
    """Return the leaks from a split's inputs, below `asked`, to its `labels`; all are folders.

    Tables are read from CSV and TSV files. Of other files only names, sizes and times are used.
    Raises OSError.
    """
    known, seen = _tables(train), _tables(asked)
    found: list[Leak] = []
    for answers in _tables(labels):
        withheld = _labels(answers, seen)
        for table in seen:
            order = _matched(answers, table)
            if order is not None:
                found += _of_table(answers, withheld, table, order, known)
        found += _of_names(answers, asked)
    return list(dict.fromkeys(found))


def _labels(answers: _Table, seen: Sequence[_Table]) -> list[str]:
    """Return the withheld columns: those that no input table has, or else all but the ids.

    A sample submission has these columns too, with placeholder values, so it is not an input table.
    """
    inputs = [table for table in seen if not _SAMPLE.search(table.name)]
    shown = {name for table in inputs for name in table.columns}
    ids = {n for n, values in answers.columns.items() if len(set(values)) == len(values)} & shown
    return [n for n in answers.columns if n not in shown] or [
        n for n in answers.columns if n not in ids
    ]


def _of_table(
    answers: _Table,
    labels: Sequence[str],
    table: _Table,
    order: Sequence[int],
    known: Sequence[_Table],
) -> Iterator[Leak]:
    """Yield leaks of each label from one table of the split's inputs."""
    for label in labels:
        truth = [answers.columns[label][i] for i in order]
        if len(set(truth)) < 2:
            continue
        yield from _equal_columns(label, truth, table)
        yield from _in_order(label, truth, table)
        for before in known:
            if label in before.columns:
                shared = [c for c in table.columns if c in before.columns and c != label]
                yield from _taught(label, truth, table, before, shared)
                yield from _repeated(label, truth, table, before, shared)
                yield from _left_there(label, truth, table, before)


def _equal_columns(label: str, truth: Sequence[str], table: _Table) -> Iterator[Leak]:
    for name, values in table.columns.items():
        if len(set(values)) < 2:
            continue  # a sample submission with one constant value
        right = _share(truth, values)
        if right >= _RIGHT:
            yield Leak(f"{table.name}: column {name!r}", f"is {label!r} in {right:.1%} of the rows")


def _in_order(label: str, truth: Sequence[str], table: _Table) -> Iterator[Leak]:
    """Yield a leak if labels form few blocks in the order of rows or of a column."""
    counts = Counter(truth)
    if len(counts) > _CLASSES or len(truth) < 20:
        numbers = _numbers(truth)
        if numbers and len(truth) >= 20 and numbers in (sorted(numbers), sorted(numbers)[::-1]):
            yield Leak(f"{table.name}: order of rows", f"is the order of {label!r}")
        return
    # The expected number of differing neighbours if labels are in random order.
    expected = (len(truth) - 1) * (1 - sum((n / len(truth)) ** 2 for n in counts.values()))
    orders: dict[str, Sequence[str]] = {"order of rows": truth}
    for name, values in table.columns.items():
        numbers = _numbers(values) or _times(values)
        if numbers and len(set(numbers)) > 0.9 * len(numbers):
            places = sorted(range(len(numbers)), key=numbers.__getitem__)
            orders[f"order of {name!r}"] = [truth[i] for i in places]
    for how, ordered in orders.items():
        changes = sum(1 for _ in groupby(ordered)) - 1
        if changes < 0.1 * expected:
            yield Leak(f"{table.name}: {how}", f"has {label!r} in {changes + 1} blocks")


def _taught(
    label: str, truth: Sequence[str], table: _Table, before: _Table, shared: Sequence[str]
) -> Iterator[Leak]:
    """Yield columns that predict the label alone, after training on the training rows."""
    past = before.columns[label]
    if len(set(past)) > _CLASSES:
        yield from _proportional(label, truth, table, before, shared)
        return
    commonest = Counter(past).most_common(1)[0]
    plain = _share(truth, [commonest[0]] * len(truth))
    if plain > 0.95:
        return
    for name in shared:
        taught: dict[str, Counter[str]] = {}
        for value, said in zip(before.columns[name], past, strict=True):
            taught.setdefault(value, Counter())[said] += 1
        guess = {value: said.most_common(1)[0][0] for value, said in taught.items()}
        values = table.columns[name]
        if sum(value in guess for value in values) < 0.9 * len(values):
            guess = {}
        right = _share(truth, [guess.get(value, "") for value in values])
        nearest = _nearest(values, before.columns[name], past) if right < _RIGHT else None
        if nearest is not None:
            right = max(right, _share(truth, nearest))
        if right >= _RIGHT:
            yield Leak(
                f"{table.name}: column {name!r}",
                f"alone tells {label!r} in {right:.1%} of the rows (always the same: {plain:.1%})",
            )


def _proportional(
    label: str, truth: Sequence[str], table: _Table, before: _Table, shared: Sequence[str]
) -> Iterator[Leak]:
    """Yield columns that correlate almost perfectly with a numeric label."""
    wanted = _numbers(truth)
    for name in shared if wanted else ():
        values = _numbers(table.columns[name])
        if values and len(set(values)) > 2:
            similar = _correlation(values, wanted)
            if abs(similar) > 0.999:
                place = f"{table.name}: column {name!r}"
                yield Leak(place, f"goes with {label!r}, correlation {similar:.4f}")


def _repeated(
    label: str, truth: Sequence[str], table: _Table, before: _Table, shared: Sequence[str]
) -> Iterator[Leak]:
    """Yield the share of rows that also occur, with their labels, among the training rows."""
    if not shared or table.rows == 0:
        return
    rows = zip(*(before.columns[name] for name in shared), strict=True)
    past = dict(zip(rows, before.columns[label], strict=True))
    asked = zip(*(table.columns[name] for name in shared), strict=True)
    right = sum(past.get(row) == said for row, said in zip(asked, truth, strict=True))
    distinct = len(past) > 0.5 * before.rows  # otherwise rows repeat by chance
    if distinct and right > 0.01 * table.rows:
        share = right / table.rows
        yield Leak(f"{table.name}: rows", f"{share:.1%} are in {before.name}, with their {label!r}")


def _left_there(label: str, truth: Sequence[str], table: _Table, before: _Table) -> Iterator[Leak]:
    """Yield a leak if a training file holds the labels of the very ids to predict."""
    for key in table.columns.keys() & before.columns.keys():
        values = table.columns[key]
        past = dict(zip(before.columns[key], before.columns[label], strict=True))
        is_id = len(set(values)) == len(values) and all(value in past for value in values)
        if is_id and _share(truth, [past[value] for value in values]) >= _RIGHT:
            yield Leak(f"train/{before.name}", f"has {label!r} of the ids that are asked for")


def _of_names(answers: _Table, asked: Path) -> Iterator[Leak]:
    """Yield leaks from names, folders, sizes and times of files."""
    files = {p.relative_to(asked).as_posix(): p for p in tree_files(asked)}
    if len(files) < 10:
        return
    for key, ids in answers.columns.items():
        by_stem = {Path(name).stem: name for name in files} | {Path(n).name: n for n in files}
        by_stem |= {name: name for name in files}
        named = [by_stem.get(value) for value in ids]
        if None in named or len(set(named)) < len(named):
            continue
        names = [name for name in named if name is not None]
        for label, truth in answers.columns.items():
            if label == key or not 2 <= len(set(truth)) <= _CLASSES:
                continue
            words = [set(_WORD.findall(n)) | set(re.split(r"[_\W]+", n)) for n in names]
            right = sum(said in own for said, own in zip(truth, words, strict=True)) / len(truth)
            if right >= _RIGHT:
                yield Leak("names of files", f"hold {label!r} in {right:.1%} of the files")
            stats = [files[name].stat() for name in names]
            for what, values in (
                ("sizes", [str(s.st_size) for s in stats]),
                ("times", [str(s.st_mtime_ns) for s in stats]),
            ):
                told: dict[str, set[str]] = {}
                for value, said in zip(values, truth, strict=True):
                    told.setdefault(value, set()).add(said)
                few = len(told) <= len(truth) / 2
                if few and len(told) > 1 and all(len(said) == 1 for said in told.values()):
                    yield Leak(f"{what} of files", f"tell {label!r}")


def _tables(folder: Path) -> list[_Table]:
    """Return the tables below a folder, up to the first `_MOST_ROWS` rows of each."""
    found = []
    for path in tree_files(folder):
        if path.suffix.lower() in _SEPARATORS and path.stat().st_size <= _MOST_BYTES:
            table = _read(path, path.relative_to(folder).as_posix())
            if table is not None:
                found.append(table)
    return found


def _read(path: Path, name: str) -> _Table | None:
    separator = _SEPARATORS[path.suffix.lower()]
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        try:
            rows = csv.reader(file, delimiter=separator)
            head = next(rows, None)
            if not head or len(set(head)) < len(head):
                return None
            body = [row for row, _ in zip(rows, range(_MOST_ROWS), strict=False)]
        except csv.Error:  # such as an unterminated field
            return None
    body = [row for row in body if len(row) == len(head)]
    columns = list(zip(*body, strict=True)) or [()] * len(head)
    return _Table(name, dict(zip(head, columns, strict=True)))


def _matched(answers: _Table, table: _Table) -> list[int] | None:
    """Return the answer row for each row of a table; None if they do not match."""
    for name, values in table.columns.items():
        keys = answers.columns.get(name, ())
        place = {key: row for row, key in enumerate(keys)}
        if len(place) == len(keys) > 0 and all(value in place for value in values):
            return [place[value] for value in values]
    return list(range(table.rows)) if table.rows == answers.rows > 0 else None


def _nearest(
    values: Sequence[str], before: Sequence[str], labels: Sequence[str]
) -> list[str] | None:
    """Return the label of the training row with the nearest number or time; None if not numeric."""
    asked, past = _numbers(values) or _times(values), _numbers(before) or _times(before)
    if not asked or not past or len(set(past)) < 0.5 * len(past):
        return None
    order = sorted(range(len(past)), key=past.__getitem__)
    places = [past[i] for i in order]
    found = []
    for value in asked:
        right = bisect_left(places, value)
        around = [i for i in (right - 1, right) if 0 <= i < len(places)]
        best = min(around, key=lambda i: abs(places[i] - value))
        found.append(labels[order[best]])
    return found


def _share(truth: Sequence[str], guesses: Sequence[str]) -> float:
    pairs = zip(truth, guesses, strict=True)
    return sum(a == b or _same_number(a, b) for a, b in pairs) / max(1, len(truth))


def _same_number(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return False


def _numbers(values: Sequence[str]) -> list[float]:
    """Return the values as numbers; empty if any value is not a finite number."""
    try:
        found = [float(value) for value in values]
    except ValueError:
        return []
    return found if all(abs(value) < float("inf") for value in found) else []


def _times(values: Sequence[str]) -> list[float]:
    """Return times as numbers of their digits, for example 2012-06-18 15:02 or 20120618150226Z."""
    if not all(re.match(r"(?:19|20)\d\d-?[01]\d-?[0-3]\d", value) for value in values):
        return []
    return [float(re.sub(r"\D", "", value)[:14].ljust(14, "0")) for value in values]


def _correlation(one: Sequence[float], other: Sequence[float]) -> float:
    try:
        return correlation(one, other)
    except StatisticsError:  # one side is constant
        return 0.0
