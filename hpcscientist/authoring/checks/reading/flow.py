"""Control flow: which loops, conditions and handlers stand around each statement."""

# ruff: noqa: D102  # `visit_X` visits an X

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from hpcscientist.authoring.checks.reading import conditions
from hpcscientist.authoring.checks.reading.scopes import ANYTHING, Place, Scope


class Flow(ast.NodeVisitor, ABC):
    """Visits a tree in the order of evaluation and keeps the place where it is."""

    def __init__(self, scope: Scope) -> None:
        self._place = Place(scope)

    @abstractmethod
    def _bind(self, name: str, node: ast.AST, handler: int | None = None) -> None:
        """Note that a name gets a value here."""

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Visit statements; behind one that may leave, the rest is not sure to be reached."""
        before = self._place
        for statement in body:
            self.visit(statement)
            if conditions.may_leave(statement):
                self._place = replace(self._place, maybe=True)
        self._place = before

    @contextmanager
    def _at(self, place: Place) -> Iterator[None]:
        before, self._place = self._place, place
        try:
            yield
        finally:
            self._place = before

    def _looped(self, node: ast.AST) -> Place:
        return replace(self._place, loops=self._place.loops | {id(node)})

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        here = self._place
        foreign = here.foreign or conditions.is_foreign(node.test)
        maybe = here.maybe or not conditions.is_main(node.test)
        with self._at(replace(here, maybe=maybe, foreign=foreign)):
            self.block(node.body)
        with self._at(replace(here, maybe=True, foreign=foreign)):
            self.block(node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        foreign = self._place.foreign or conditions.is_foreign(node.test)
        with self._at(replace(self._place, foreign=foreign)):
            self._visit_all([node.body, node.orelse])

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        with self._at(self._looped(node)):
            self.visit(node.target)
            self.block(node.body)
        self.block(node.orelse)

    visit_AsyncFor = visit_For  # noqa: N815

    def visit_While(self, node: ast.While) -> None:
        with self._at(self._looped(node)):
            self.visit(node.test)
            self.block(node.body)
        self.block(node.orelse)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        self._visit_all(node.items)
        caught = {name for item in node.items for name in conditions.suppressed(item)}
        with self._at(replace(self._place, caught=self._place.caught | caught)):
            self.block(node.body)

    visit_AsyncWith = visit_With  # noqa: N815

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        here, caught = self._place, conditions.caught(node)
        with self._at(replace(here, caught=here.caught | caught)):
            self.block(node.body)
        lenient = not caught.isdisjoint({ANYTHING, "ImportError", "ModuleNotFoundError"})
        for handler in node.handlers:
            inside = replace(here, maybe=True, handlers=here.handlers | {id(handler)})
            with self._at(inside):
                if handler.type is not None:
                    self.visit(handler.type)
                if handler.name is not None:
                    self._bind(handler.name, handler, id(handler))
                self.block(handler.body)
        with self._at(replace(here, maybe=here.maybe or lenient)):
            self.block(node.orelse)
        self.block(node.finalbody)

    visit_TryStar = visit_Try  # noqa: N815

    def visit_match_case(self, node: ast.match_case) -> None:
        with self._at(replace(self._place, maybe=True)):
            self._visit_all([node.pattern, node.guard])
            self.block(node.body)

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)
