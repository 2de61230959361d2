"""Statements about a campaign: false ones of twelve kinds, and true ones of the same kinds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from corpus_kit import Case

from hpcscientist.bench.papers.campaign import PaperShelf, sheet
from hpcscientist.bench.papers.statements import Statement, defects, statements

FACTS, PAPERS = sheet(), PaperShelf()


def cases() -> Iterator[Case]:
    for name, refused in (("false_statements", True), ("true_statements", False)):
        for number, statement in enumerate(statements(name)):
            read = partial(_is_refused, statement)
            yield Case(f"{statement.kind}-{refused}-{number}", refused, read, statement.text)


def _is_refused(statement: Statement) -> bool:
    return bool(defects(statement, FACTS, PAPERS))
