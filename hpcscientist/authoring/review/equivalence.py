"""Whether two programs do the same, as far as their source alone proves it.

Comments, docstrings, annotations of functions, white space, consistent renaming, imports and
constants that nothing uses, and definitions that nothing reaches do not change a run. Two programs
that differ only in these are the same; about others this module says nothing.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Mapping
from typing import Any

from hpcscientist.authoring.review.reachability import (
    Definition,
    ReachedProgram,
    constant_names,
    is_text,
    never_runs,
)
from hpcscientist.authoring.review.source import UNREADABLE

_STANDARD = frozenset(sys.stdlib_module_names) - {"__future__"}
_IGNORED = frozenset({"ctx", "kind", "type_comment", "type_ignores", "type_params", "returns"})


def same_program(
    candidate: ReachedProgram,
    reference: ReachedProgram,
    files: Mapping[str, str],
    reference_files: Mapping[str, str],
) -> bool:
    """Return whether a candidate surely does what the reference does; never raises."""
    for name in {*files, *reference_files}:
        if not name.endswith(".py") and files.get(name) != reference_files.get(name):
            return False
    try:
        return _shapes(candidate) == _shapes(reference)
    except UNREADABLE:
        return False


def unread_constants(program: ReachedProgram) -> list[tuple[str, str, ast.stmt]]:
    """Return (file, name, statement) of file-level constants that no reached code reads."""
    found = []
    for file, tree in program.trees.items():
        for statement in tree.body if program.known else []:
            name = constant_name(statement)
            if name and not name.startswith("_") and name not in program.mentioned:
                found.append((file, name, statement))
    return found


def constant_name(statement: ast.stmt) -> str | None:
    """Return the name that a statement sets to a literal value; None for any other statement."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target, value = statement.target, statement.value
    else:
        return None
    literal = not any(
        isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Await | ast.NamedExpr)
        for node in ast.walk(value)
    )
    return target.id if isinstance(target, ast.Name) and literal else None


def _shapes(program: ReachedProgram) -> dict[str, Any]:
    """Return the code of a program that runs, by file, as nested tuples that can be compared."""
    shaper = _Shaper(program)
    files = program.files if program.known else program.trees
    return {name: shaper.shape(program.trees[name]) for name in sorted(files)}


class _Shaper:
    def __init__(self, program: ReachedProgram) -> None:
        self._program = program
        self._dead = {id(unit.node) for unit in program.unreached}
        self._dead |= {id(statement) for *_, statement in unread_constants(program)}
        # Names are numbered in order of first use, so that a consistent renaming changes nothing.
        self._bound = _bound(program) if program.known else frozenset()
        self._numbers: dict[str, int] = {}
        self._switches = constant_names(program)

    def shape(self, value: Any) -> Any:
        if isinstance(value, list):
            return tuple(self.shape(item) for item in value if not self._skipped(item))
        if not isinstance(value, ast.AST):
            return (type(value).__name__, repr(value))
        return (
            type(value).__name__,
            *(
                (name, self._field(value, name, item))
                for name, item in ast.iter_fields(value)
                if name not in _IGNORED
            ),
        )

    def _field(self, node: ast.AST, name: str, value: Any) -> Any:
        if isinstance(node, ast.arg) and name == "annotation":
            return None
        named = (isinstance(node, ast.Name) and name == "id") or name in ("arg", "name", "names")
        if named and not isinstance(node, ast.keyword):
            if isinstance(value, str):
                return self._name(value)
            if isinstance(node, ast.Global | ast.Nonlocal):
                return tuple(map(self._name, value))
        return self.shape(value)

    def _name(self, name: str) -> Any:
        if name not in self._bound:
            return name
        return self._numbers.setdefault(name, len(self._numbers))

    def _skipped(self, node: Any) -> bool:
        if is_text(node) or isinstance(node, ast.Pass) or id(node) in self._dead:
            return True
        if isinstance(node, ast.Import | ast.ImportFrom):
            return self._is_unused(node)
        if isinstance(node, ast.If) and not node.orelse:
            return never_runs(node.test, self._switches)
        return False

    def _is_unused(self, node: ast.Import | ast.ImportFrom) -> bool:
        """Return whether an import is of the standard library and nothing uses it.

        Importing any other module may have an effect.
        """
        used = self._program.mentioned
        if not self._program.known:
            return False
        whole = node.module if isinstance(node, ast.ImportFrom) and not node.level else None
        if whole is None and isinstance(node, ast.ImportFrom):
            return False
        modules = [whole or alias.name for alias in node.names]
        own = {name.rpartition("/")[2].removesuffix(".py") for name in self._program.trees}
        names = [alias.asname or alias.name.split(".")[0] for alias in node.names]
        return all(
            module.split(".")[0] in _STANDARD - own and name not in used and name != "*"
            for module, name in zip(modules, names, strict=True)
        )


def _bound(program: ReachedProgram) -> frozenset[str]:
    """Return the names that the program itself binds, except by imports."""
    bound, imported = set[str](), set[str]()
    for tree in program.trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.add(node.id)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, Definition):
                bound.add(node.name)
            elif isinstance(node, ast.alias):
                imported.update((node.asname or node.name, node.name))
    # Imported names are not renamed: they may be another file's, or a library's.
    return frozenset(bound - imported - set(dir(builtins)))
