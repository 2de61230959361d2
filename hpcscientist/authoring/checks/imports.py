"""Whether imported modules and names exist: own files, names in them, the library, packages."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from hpcscientist.authoring.checks.module import Module
from hpcscientist.authoring.checks.names import hint
from hpcscientist.authoring.checks.project import STANDARD, Project
from hpcscientist.authoring.checks.scopes import FlowPlace
from hpcscientist.records.base import Problem

_ERRORS = ("ImportError", "ModuleNotFoundError")


def import_problems(
    project: Project, module: Module, packages: Collection[str] | None
) -> Iterator[Problem]:
    """Yield a problem for each import that fails; `packages` None: any package may exist."""
    for node, place in module.notes.imports:
        if place.survives(*_ERRORS) or place.foreign:
            continue
        found = (
            _plain(project, module, node, place, packages)
            if isinstance(node, ast.Import)
            else _named(project, module, node, place, packages)
        )
        for message in found:
            yield Problem(file=module.name, line=node.lineno, message=message)


def attribute_problems(project: Project, module: Module) -> Iterator[Problem]:
    """Yield a problem for each attribute that is read from an own module that lacks it."""
    for node, place in module.notes.attributes:
        if not isinstance(node.value, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        if place.survives("AttributeError") or place.foreign:
            continue
        file = _module_of(project, module, node.value.id, place)
        if file is None or _is_submodule(project, module, file, node.attr):
            continue
        target = project.modules.get(file)
        if target and not project.holds(target, node.attr) and node.attr not in module.constants:
            message = f"{file} has no {node.attr!r}{hint(node.attr, target.scope.binds)}"
            yield Problem(file=module.name, line=node.lineno, message=message)


def _module_of(project: Project, module: Module, name: str, place: FlowPlace) -> str | None:
    """Return the own file that a name surely stands for, if any."""
    owner = next((scope for scope in place.scope.up() if name in scope.binds), None)
    bind = owner.sole(name) if owner is not None and owner.kind != "class" else None
    alias = project.alias(module, bind) if bind else None
    return alias[0] if alias and alias[1] is None else None


def _is_submodule(project: Project, module: Module, file: str, name: str) -> bool:
    return file.endswith("__init__.py") and (
        project.at(project.base(file, 1), name) is not None or module.name == file
    )


def _plain(
    project: Project,
    module: Module,
    node: ast.Import,
    place: FlowPlace,
    packages: Collection[str] | None,
) -> Iterator[str]:
    for alias in node.names:
        if project.find(module.name, alias.name) is None:
            yield from _missing(project, module, alias.name, place, packages)


def _named(
    project: Project,
    module: Module,
    node: ast.ImportFrom,
    place: FlowPlace,
    packages: Collection[str] | None,
) -> Iterator[str]:
    dotted = node.module or ""
    if node.level > module.name.count("/") and not project.finds_elsewhere:
        yield (
            f"the relative import {'.' * node.level}{dotted} leads out of the code folder, which "
            "is no package; import the file by its name"
        )
        return
    file = project.source(module.name, node)
    if file is None and node.level:
        known = [name.rpartition(".")[2] for name in project.names_from(module.name)]
        yield f"there is no module {'.' * node.level}{dotted}{hint(dotted, known)}"
    elif file is None:
        yield from _missing(project, module, dotted, place, packages)
    elif file in project.modules:
        target = project.modules[file]
        for alias in node.names:
            here = alias.name == "*" or project.holds(target, alias.name)
            if not here and project.child(module.name, node, alias.name) is None:
                near = hint(alias.name, target.scope.binds)
                yield f"cannot import {alias.name!r} from {file}, which has no such name{near}"


def _missing(
    project: Project,
    module: Module,
    dotted: str,
    place: FlowPlace,
    packages: Collection[str] | None,
) -> Iterator[str]:
    """Yield why a module other than an own file cannot be imported, if it cannot."""
    top = dotted.partition(".")[0]
    if top in STANDARD or (packages is not None and top in packages) or project.finds_anywhere:
        return
    own = list(project.names_from(module.name))
    if top != dotted and project.find(module.name, top) is not None:
        if packages is not None or project.find(module.name, top):
            yield f"there is no module {dotted!r}{hint(dotted, own)}"
    elif packages is not None and not place.maybe:
        there = ", ".join((*sorted(packages), "the standard library"))
        near = hint(dotted, (*own, *packages))
        yield f"{dotted!r} cannot be imported; there is {there} and these files alone{near}"
