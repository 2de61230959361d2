"""One file with the notes on it, and whether it changes names or modules dynamically."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hpcscientist.authoring.checks.scopes import Scope
from hpcscientist.authoring.checks.walk import Notes, walk

# A file that uses one of these may bind names that its source does not show.
_BINDERS = frozenset(["exec", "globals", "locals", "__builtins__"])
_INJECTORS = frozenset(["_convert_", "global_enum"])  # of the standard library's enum
FINDERS = frozenset(["meta_path", "path_hooks", "path_importer_cache", "addsitedir"])
# Names that every module has.
MODULE_NAMES = frozenset(
    "__name__ __doc__ __file__ __package__ __loader__ __spec__ __builtins__ __path__ __dict__ "  # noqa: SIM905
    "__cached__ __annotations__ __debug__ __all__".split()
)


@dataclass(frozen=True)
class Module:
    """One file with its tree and the notes on it."""

    name: str
    tree: ast.Module
    notes: Notes

    @property
    def scope(self) -> Scope:
        """Its outermost scope."""
        return self.notes.module

    @cached_property
    def stars(self) -> bool:
        """Return whether it imports all names of some module."""
        return "*" in self.scope.binds

    @cached_property
    def is_dynamic(self) -> bool:
        """Return whether it may have names that its source does not show."""
        if self.stars or "__getattr__" in self.scope.binds:
            return True
        if any(use.name in _BINDERS for use in self.notes.uses):
            return True
        if any(is_call(call, "vars") and not call.args for call, _ in self.notes.calls):
            return True
        return any(
            node.attr in _INJECTORS or is_of_sys(node, "modules")
            for node, _ in self.notes.attributes
        ) or any(use.name in _INJECTORS for use in self.notes.uses)

    @cached_property
    def imported(self) -> frozenset[str]:
        """The names that its imports bind, in any scope."""
        return frozenset(
            bind.name
            for scope in self.notes.scopes.values()
            for binds in scope.binds.values()
            for bind in binds
            if isinstance(bind.node, ast.Import | ast.ImportFrom)
        )

    @cached_property
    def constants(self) -> frozenset[object]:
        """All literal values in it."""
        return frozenset(n.value for n in ast.walk(self.tree) if isinstance(n, ast.Constant))

    @cached_property
    def lint(self) -> tuple[Any, ...]:
        """The messages of Pyflakes, uncertain ones included."""
        from pyflakes import checker  # noqa: PLC0415  # slow, and only campaigns need it

        try:
            found = checker.Checker(self.tree, filename=self.name, withDoctest=False).messages
        except RecursionError:
            return ()
        return tuple(found)


def stays(module: Module) -> bool:
    """Return whether a file extends the search for modules only to places beside itself."""
    touched = [
        node
        for node, _ in module.notes.attributes
        if node.attr in FINDERS or is_of_sys(node, "path", "modules")
    ]
    beside = [
        call.func.value
        for call, _ in module.notes.calls
        if isinstance(call.func, ast.Attribute)
        and is_of_sys(call.func.value, "path")
        and any(is_name(node, "__file__") for node in ast.walk(call))
    ]
    return all(node in beside for node in touched)


def patches_at_will(module: Module) -> bool:
    """Return whether a file may set attributes of modules by names that it does not show."""
    for call, _ in module.notes.calls:
        told = len(call.args) > 1 and isinstance(call.args[1], ast.Constant)
        if is_call(call, "setattr", "vars") and call.args and not told:
            roots = {n.id for n in ast.walk(call.args[0]) if isinstance(n, ast.Name)}
            if roots & module.imported:
                return True
    return any(
        node.attr == "__dict__" and root(node) in module.imported
        for node, _ in module.notes.attributes
    )


def read(name: str, tree: ast.Module, late: bool = False) -> Module | None:
    """Return a file with the notes on it; None if it is nested too deeply."""
    try:
        return Module(name, tree, walk(tree, late))
    except RecursionError:
        return None


def root(node: ast.expr) -> str | None:
    """Return the first name of a dotted expression; None if there is none."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def is_name(node: ast.AST, name: str) -> bool:
    """Return whether an expression is this plain name."""
    return isinstance(node, ast.Name) and node.id == name


def is_of_sys(node: ast.AST, *names: str) -> bool:
    """Return whether an expression is one of these attributes of `sys`."""
    return isinstance(node, ast.Attribute) and node.attr in names and is_name(node.value, "sys")


def is_call(call: ast.Call, *names: str) -> bool:
    """Return whether a call is of something with one of these names, wherever it is from."""
    function = call.func
    return (isinstance(function, ast.Name) and function.id in names) or (
        isinstance(function, ast.Attribute) and function.attr in names
    )
