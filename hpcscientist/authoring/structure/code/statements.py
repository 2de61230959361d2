"""Statements: the lines they span, what they compute themselves, and the blocks in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpcscientist.authoring.structure.code.units import FunctionNode

Place = tuple[int, int]  # line, column in bytes


def span(node: ast.AST) -> tuple[int, int]:
    """Return first and last line of a statement, handler or case."""
    if isinstance(node, ast.match_case):
        last = node.body[-1]
        return node.pattern.lineno, last.end_lineno or last.lineno
    decorators = getattr(node, "decorator_list", [])
    start = min([getattr(node, "lineno", 1), *(each.lineno for each in decorators)])
    return start, max(start, end_of(node)[0])


def start_of(node: ast.expr | ast.stmt | ast.arg | ast.ExceptHandler) -> Place:
    """Return where a node begins."""
    return node.lineno, node.col_offset


def end_of(node: ast.AST) -> Place:
    """Return where a node ends."""
    line, column = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
    return (line or 1, column or 0)


def header_parts(node: ast.AST) -> list[ast.AST]:
    """Return what a statement computes itself, without the blocks in it."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    if isinstance(node, FunctionNode):
        return _function_parts(node)
    if isinstance(node, ast.With | ast.AsyncWith):
        given = [part for item in node.items for part in (item.context_expr, item.optional_vars)]
        return [part for part in given if part is not None]
    if not any(isinstance(getattr(node, name, None), list) for name in ("body", "cases")):
        return [node]
    names = ("test", "target", "iter", "type", "subject", "pattern", "guard")
    parts = (getattr(node, name, None) for name in names)
    return [part for part in parts if isinstance(part, ast.AST)]


def _function_parts(node: FunctionNode) -> list[ast.AST]:
    given = node.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    notes = [argument.annotation for argument in every if argument is not None]
    values = [*node.decorator_list, *given.defaults, *given.kw_defaults]
    return [part for part in (*values, *notes, node.returns) if part is not None]


def blocks(node: ast.AST) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield the blocks of a compound statement, each with its branch's name.

    Of the branches `if` and `else`, of all cases and of all handlers only one is taken.
    """
    names = {"body": "if", "orelse": "else"} if isinstance(node, ast.If) else {}
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block:
            yield names.get(name, name), block
    for number, handler in enumerate(getattr(node, "handlers", ())):
        yield f"handler {number}", [handler]
    for number, case in enumerate(getattr(node, "cases", ())):
        yield f"case {number}", [case]


def in_order(part: ast.AST) -> Iterator[tuple[ast.AST, Place | None]]:
    """Yield a node's parts, inner ones first, each with the place of a formatted text around it.

    Before Python 3.12, what stands in such a text may be said to stand elsewhere.
    """
    stack: list[tuple[ast.AST, Place | None, bool]] = [(part, None, False)]
    while stack:
        node, place, entered = stack.pop()
        if entered:
            yield node, place
            continue
        inner = place
        if isinstance(node, ast.JoinedStr) and place is None:
            inner = start_of(node)
        stack.append((node, place, True))
        children = list(ast.iter_child_nodes(node))
        stack.extend((child, inner, False) for child in reversed(children))


def touching(parts: list[ast.AST], line: int) -> list[ast.AST]:
    """Return the outermost expressions that stand in one line of a long statement."""
    found: list[ast.AST] = []
    queue = list(parts)
    while queue:
        node = queue.pop(0)
        first, last = span(node) if hasattr(node, "lineno") else (0, 10**9)
        if first == last == line and isinstance(node, ast.expr):
            found.append(node)
        elif first <= line <= last:
            queue.extend(ast.iter_child_nodes(node))
    return found
