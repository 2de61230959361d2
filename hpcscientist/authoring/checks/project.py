"""The files of one version as Python sees them: which file an import finds, what is patched."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import PurePosixPath

from hpcscientist.authoring.checks.module import (
    FINDERS,
    MODULE_NAMES,
    Module,
    is_call,
    is_of_sys,
    patches_at_will,
    read,
    root,
    stays,
)
from hpcscientist.authoring.checks.scopes import Bind, Scope

# The names of the standard library's modules, in any Python that a trial may have.

# A trial's image may hold an older Python than this one, which still had these modules.
_EARLIER = (
    "aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap "
    "msilib nis nntplib ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib"
)
_LATER = "annotationlib compression"  # of a newer Python
STANDARD = sys.stdlib_module_names | set(f"{_EARLIER} {_LATER} __main__ test".split())


_SETTERS = ("setattr", "delattr", "setitem", "patch", "object")  # of mock and monkeypatch, too


class Project:
    """All files of one version; files that do not parse or nest too deeply only by their names."""

    def __init__(
        self, files: Mapping[str, str], trees: Mapping[str, ast.Module], late: bool = False
    ) -> None:
        """`late`: annotations may be evaluated lazily."""
        self._files = sorted(name for name in files if name.endswith(".py"))
        # A module's file by the module's path without a suffix; "" for a folder alone.
        self._places = _places(self._files)
        self._folders = {folder for name in self._files for folder in PurePosixPath(name).parents}
        self._found = dict[tuple[str, str], str | None]()
        self.modules = {name: m for name, tree in trees.items() if (m := read(name, tree, late))}

    @cached_property
    def patched(self) -> frozenset[str]:
        """The names that some file sets as attributes of any object, or by `setattr`."""
        stored = (node.attr for _, node in self._stores())
        return frozenset((*stored, *self._set_by_name()))

    @cached_property
    def patched_modules(self) -> frozenset[str]:
        """The names that some file sets as attributes of what it imports, or by `setattr`."""
        stored = (node.attr for module, node in self._stores() if root(node) in module.imported)
        return frozenset((*stored, *self._set_by_name()))

    @cached_property
    def classes(self) -> dict[str, list[Scope]]:
        """The classes that bind each name, by that name."""
        found = dict[str, list[Scope]]()
        for module in self.modules.values():
            for scope in module.notes.scopes.values():
                if scope.kind == "class":
                    for name in scope.binds:
                        found.setdefault(name, []).append(scope)
        return found

    @cached_property
    def is_patched_at_will(self) -> bool:
        """Return whether some file may set module attributes by names that it does not show."""
        return any(patches_at_will(module) for module in self.modules.values())

    @cached_property
    def finds_elsewhere(self) -> bool:
        """Return whether some file changes where Python looks for modules."""
        return any(
            node.attr in FINDERS or is_of_sys(node, "path", "modules")
            for node, _ in self._all_attributes()
        ) or any("PYTHONPATH" in text for text in self._strings())

    @cached_property
    def finds_anywhere(self) -> bool:
        """Return whether Python may then look for modules outside these files."""
        if not self.finds_elsewhere:
            return False
        return not all(stays(module) for module in self.modules.values())

    def find(self, importer: str, dotted: str) -> str | None:
        """Return the file of an absolute import; "" for a folder or an unclear match, else None.

        Python looks in the folder of the file that was started, which is the importer's folder or
        one above it.
        """
        folder = "" if self.finds_elsewhere else str(PurePosixPath(importer).parent)
        if (folder, dotted) not in self._found:
            roots = self._folders if self.finds_elsewhere else PurePosixPath(importer).parents
            found = {file for r in roots if (file := self.at(r, dotted)) is not None}
            # If two fit, or the library has a module of this name, the match is unclear.
            sure = len(found) == 1 and dotted.partition(".")[0] not in STANDARD
            self._found[folder, dotted] = (found.pop() if sure else "") if found else None
        return self._found[folder, dotted]

    def at(self, folder: PurePosixPath, dotted: str) -> str | None:
        """Return the file of a module below a folder; "" for a folder of modules."""
        path = f"{folder}/{dotted.replace('.', '/')}" if dotted else f"{folder}/__init__"
        found = self._places.get(path.removeprefix("./"))
        return "" if found is None and not dotted and folder in self._folders else found

    def names_from(self, importer: str) -> Iterator[str]:
        """Yield the names under which a file can import the others."""
        for folder in PurePosixPath(importer).parents:
            for name in self._files:
                path = PurePosixPath(name)
                if name != importer and path.is_relative_to(folder):
                    parts = path.relative_to(folder).with_suffix("").parts
                    yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def holds(self, module: Module, name: str) -> bool:
        """Return whether a module may have a name."""
        scope = module.scope
        return (
            name in scope.binds
            or name in MODULE_NAMES
            or name in self.patched
            or module.is_dynamic
            or self.is_patched_at_will
        )

    def alias(self, module: Module, bind: Bind) -> tuple[str, str | None] | None:
        """Return what an import binds: a file, and a name in it or None for the file itself.

        None if it does not import one of these files, or if it is unclear which one.
        """
        node = bind.node
        if isinstance(node, ast.Import):
            for alias in node.names:
                plain = "." not in alias.name
                if (alias.asname or alias.name) == bind.name and (alias.asname or plain):
                    file = self.find(module.name, alias.name)
                    return (file, None) if file else None
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == bind.name:
                    return self.alias_of(module, node, alias.name)
        return None

    def alias_of(
        self, module: Module, node: ast.ImportFrom, name: str
    ) -> tuple[str, str | None] | None:
        """Return what one name of `from … import` stands for, as `alias` does."""
        file = self.source(module.name, node)
        if file is None:
            return None
        if file in self.modules and name in self.modules[file].scope.binds:
            return file, name
        child = self.child(module.name, node, name)
        return (child, None) if child else None

    def child(self, importer: str, node: ast.ImportFrom, name: str) -> str | None:
        """Return the file of a module that is imported from a folder of modules, as `find` does."""
        dotted = f"{node.module}.{name}" if node.module else name
        if node.level == 0:
            return self.find(importer, dotted)
        return self.at(self.base(importer, node.level), dotted)

    def source(self, importer: str, node: ast.ImportFrom) -> str | None:
        """Return the file that `from … import` names; "" for a folder, None for neither."""
        if node.level == 0:
            return self.find(importer, node.module or "")
        return self.at(self.base(importer, node.level), node.module or "")

    @staticmethod
    def base(importer: str, level: int) -> PurePosixPath:
        """Return the folder that the dots of a relative import refer to."""
        parents = PurePosixPath(importer).parents
        return parents[min(level, len(parents)) - 1]

    def _stores(self) -> Iterator[tuple[Module, ast.Attribute]]:
        for module in self.modules.values():
            for node, _ in module.notes.attributes:
                if not isinstance(node.ctx, ast.Load):
                    yield module, node

    def _all_attributes(self) -> Iterator[tuple[ast.Attribute, object]]:
        for module in self.modules.values():
            yield from module.notes.attributes

    def _strings(self) -> Iterator[str]:
        for module in self.modules.values():
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value

    def _set_by_name(self) -> Iterator[str]:
        for module in self.modules.values():
            for call, _ in module.notes.calls:
                name = call.args[1] if len(call.args) > 1 else None
                if is_call(call, *_SETTERS) and isinstance(name, ast.Constant):
                    yield str(name.value)


def _places(files: list[str]) -> dict[str, str]:
    places = {name.removesuffix(".py"): name for name in files}
    for name in files:
        folder = str(PurePosixPath(name).parent)
        if name.endswith("/__init__.py"):
            places[folder] = name  # takes precedence over a file of the same name
    for folder in {str(folder) for name in files for folder in PurePosixPath(name).parents}:
        places.setdefault(folder, "")
    return places
