"""The candidate's classes and their objects: bases, methods, attributes, what a call runs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from hpcscientist.authoring.structure.code.project import Project
from hpcscientist.authoring.structure.code.refs import Ref, Refs, elements
from hpcscientist.authoring.structure.code.scopes import Site
from hpcscientist.authoring.structure.code.units import Unit

_MOST = 20  # classes in a lineage

Infer = Callable[[ast.expr, Unit], Refs]


class Objects:
    """Look-ups in objects and classes; `infer` returns what the name of a base means."""

    def __init__(self, project: Project, infer: Infer) -> None:
        self._project, self._infer = project, infer

    def attribute_site(self, ref: Ref, name: str) -> Site | None:
        """Return the site that binds an attribute of an object or class, bases included."""
        classes = self.lineage(ref)
        if ref.kind == "instance":
            for owner in classes:
                if (site := self._project.set_attribute(owner, name)) is not None:
                    return site
        for owner in classes:
            if (site := self._project.class_attribute(owner, name)) is not None:
                return site
        return None

    def method(self, ref: Ref, name: str) -> Unit | None:
        """Return the method of an object or class by its name, bases included."""
        for owner in self.lineage(ref):
            if (site := self._project.class_attribute(owner, name)) is not None:
                return site.definition
        return None

    def lineage(self, ref: Ref) -> list[Unit]:
        """Return a class and the candidate's classes among its bases; for `super()` only these."""
        found: list[Unit] = []
        queue = [ref.unit] if ref.unit is not None else []
        while queue and len(found) < _MOST:
            owner = queue.pop(0)
            if owner not in found:
                found.append(owner)
                queue.extend(self.bases(owner))
        return found[1:] if ref.above else found

    def bases(self, owner: Unit) -> list[Unit]:
        """Return the candidate's classes among a class's direct bases."""
        if not isinstance(owner.node, ast.ClassDef) or owner.parent is None:
            return []
        found = []
        for base in owner.node.bases:
            named = base.value if isinstance(base, ast.Subscript) else base
            found += [
                r.unit for r in self._infer(named, owner.parent) if r.kind == "class" and r.unit
            ]
        return found

    def closed(self, ref: Ref, unit: Unit) -> bool:
        """Return whether all bases of a class are the candidate's, so no attribute is unseen.

        A `__getattr__` may provide more attributes, except to its own code (`unit`).
        """
        if self.method(ref, "__getattr__") not in (None, unit):
            return False
        for owner in self.lineage(ref):
            node = owner.node
            if not isinstance(node, ast.ClassDef) or node.keywords or node.decorator_list:
                return False
            plain = [b for b in node.bases if not (isinstance(b, ast.Name) and b.id == "object")]
            if len(plain) != len(self.bases(owner)):
                return False
        return True

    def called(self, ref: Ref) -> list[Unit]:
        """Return the definitions that run when something is called."""
        if ref.kind == "function" and ref.unit is not None:
            return [ref.unit]
        if ref.kind == "class" and ref.unit is not None:
            made = (self.method(ref, name) for name in ("__init__", "__post_init__"))
            return [next((method for method in made if method is not None), ref.unit)]
        if ref.kind == "instance":
            method = self.method(ref, "__call__") or self.method(ref, "forward")
            return [method] if method is not None else []
        if ref.kind == "sequence":
            return [unit for item in elements((ref,)) for unit in self.called(item)]
        return []


def last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def decorators(unit: Unit) -> set[str]:
    """Return the last names of a definition's decorators."""
    listed: Iterable[ast.expr] = getattr(unit.node, "decorator_list", ())
    return {last_name(d.func if isinstance(d, ast.Call) else d) for d in listed}
