"""What conditions, handlers and `with` say about the code inside them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from hpcscientist.authoring.checks.reading.scopes import ANYTHING

# A condition with one of these asks where the code runs, not what it is given.
_FOREIGN = frozenset(
    "version_info hexversion version python_version implementation platform system PY2 PY3 "  # noqa: SIM905
    "environ getenv find_spec TYPE_CHECKING".split()
)
_ENDS = frozenset(["exit", "_exit", "quit", "abort"])
_RAISES = frozenset(["raises", "assertRaises", "assertRaisesRegex"])


def is_main(test: ast.expr) -> bool:
    """Say whether a condition is `__name__ == "__main__"`."""
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(test))


def is_foreign(test: ast.expr) -> bool:
    """Say whether a condition asks for the Python or the system, or is never met."""
    if isinstance(test, ast.Constant) and not test.value:
        return True
    return any(_last(node) in _FOREIGN for node in ast.walk(test))


def may_leave(statement: ast.stmt) -> bool:
    """Say whether what follows a statement in its block may not be reached."""
    if isinstance(statement, ast.If):
        return _ends(statement.body) or _ends(statement.orelse)
    if isinstance(statement, ast.Try | ast.TryStar):
        return any(_ends(handler.body) for handler in statement.handlers)
    return _ends([statement])


def caught(node: ast.Try | ast.TryStar) -> frozenset[str]:
    """Return the exceptions after which a `try` goes on; ANYTHING where nobody can say which."""
    return frozenset(
        name
        for handler in node.handlers
        if not _ends_the_run(handler.body)
        for name in _names(handler.type)
    )


def suppressed(item: ast.withitem) -> frozenset[str]:
    """Return the exceptions that a `with` survives."""
    call = item.context_expr
    if not isinstance(call, ast.Call):
        return frozenset()
    name = _last(call.func)
    if name == "suppress":
        return frozenset(found for argument in call.args for found in _names(argument))
    return frozenset([ANYTHING]) if name in _RAISES else frozenset()


def _names(type_: ast.expr | None) -> Iterator[str]:
    if isinstance(type_, ast.Tuple):
        for entry in type_.elts:
            yield from _names(entry)
        return
    name = None if type_ is None else _last(type_)
    if name in (None, "Exception", "BaseException"):
        yield ANYTHING
    elif isinstance(type_, ast.Attribute) or (name[:1].isupper() and not name.isupper()):
        yield str(name)
    else:  # a variable, perhaps a tuple of them
        yield ANYTHING


def _ends(body: Sequence[ast.stmt]) -> bool:
    leaving = ast.Return | ast.Raise | ast.Continue | ast.Break
    return bool(body) and (isinstance(body[-1], leaving) or _is_end(body[-1]))


def _ends_the_run(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and (isinstance(body[-1], ast.Raise) or _is_end(body[-1]))


def _is_end(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Call) and _last(value.func) in _ENDS


def _last(node: ast.AST) -> str | None:
    """Return the last part of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
