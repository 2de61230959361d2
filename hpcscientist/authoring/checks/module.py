"""One file with the notes on it, and what it does to names and modules at will."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hpcscientist.authoring.checks.scopes import Scope
from hpcscientist.authoring.checks.walk import Notes, walk

# With one of these a file may bind names that cannot be read in it.
_BINDERS = frozenset(["exec", "globals", "locals", "__builtins__"])
_INJECTORS = frozenset(["_convert_", "global_enum"])  # of the standard library's enum
FINDERS = frozenset(["meta_path", "path_hooks", "path_importer_cache", "addsitedir"])
# What every module has.
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
        """Whether it imports all that some module has."""
        return "*" in self.scope.binds

    @cached_property
    def is_dynamic(self) -> bool:
        """Whether it may have names that cannot be read in it."""
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
        """The names that its imports bind, in whichever scope."""
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
        """The messages of Pyflakes, certain or not."""
        from pyflakes import checker  # noqa: PLC0415  # slow, and only campaigns need it

        try:
            found = checker.Checker(self.tree, filename=self.name, withDoctest=False).messages
        except RecursionError:
            return ()
        return tuple(found)


def stays(module: Module) -> bool:
    """Say whether a file has Python look for modules in places beside itself alone."""
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
    """Say whether a file may set attributes of modules by names that cannot be read in it."""
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
    """Return a file with the notes on it; None where it is nested too deeply."""
    try:
        return Module(name, tree, walk(tree, late))
    except RecursionError:
        return None


def root(node: ast.expr) -> str | None:
    """Return the first name of a dotted one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def is_name(node: ast.AST, name: str) -> bool:
    """Say whether an expression is this plain name."""
    return isinstance(node, ast.Name) and node.id == name


def is_of_sys(node: ast.AST, *names: str) -> bool:
    """Say whether an expression is one of these attributes of `sys`."""
    return isinstance(node, ast.Attribute) and node.attr in names and is_name(node.value, "sys")


def is_call(call: ast.Call, *names: str) -> bool:
    """Say whether a call is of something called so, wherever it is from."""
    function = call.func
    return (isinstance(function, ast.Name) and function.id in names) or (
        isinstance(function, ast.Attribute) and function.attr in names
    )
