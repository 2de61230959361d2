"""All of a candidate's files together: modules by import, names by scope, attributes by class."""

from __future__ import annotations

import ast
import builtins
import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from hpcscientist.authoring.structure.scopes import (
    BindingSite,
    Path,
    UnitScope,
    collect,
    last_before,
)
from hpcscientist.authoring.structure.units import Place, Unit, parse, units

# References: which of the candidate's definitions an expression may stand for.


_MOST_ALTERNATIVES = 8  # alternatives for one expression
_DEEP = 3


@dataclass(frozen=True, slots=True)
class Ref:
    """A module, class or function of the candidate, an object of a class, or a sequence of these.

    `items` holds what each place of a sequence may be. `above` marks what `super()` returns: the
    object seen as one of its bases.
    """

    kind: Literal["module", "class", "function", "instance", "sequence"]
    unit: Unit | None = None
    items: tuple[tuple[Ref, ...], ...] = ()
    above: bool = False
    depth: int = 0  # of sequences in sequences


Refs = tuple[Ref, ...]


def union(found: Iterable[Refs]) -> Refs:
    """Return the references in any of `found`, each once, in order; at most _MOST."""
    return tuple(dict.fromkeys(ref for refs in found for ref in refs))[:_MOST_ALTERNATIVES]


def sequence(items: Iterable[Refs]) -> Refs:
    """Return a sequence of items; () if nothing is known of any item."""
    known = tuple(items)
    depth = 1 + max((ref.depth for refs in known for ref in refs), default=0)
    return (Ref("sequence", items=known, depth=depth),) if any(known) and depth <= _DEEP else ()


def elements(refs: Refs, index: int | None = None) -> Refs:
    """Return what items of sequences may be: the one at `index`, or any."""
    found = []
    for ref in refs:
        if index is not None and -len(ref.items) <= index < len(ref.items):
            found.append(ref.items[index])
        elif ref.kind == "sequence" and (index is None or len(ref.items) == 1):
            found.extend(ref.items)
    return union(found)


_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class CodeProject:
    """The parsed files, with every definition and scope in them."""

    def __init__(self, files: Mapping[str, str]) -> None:
        names = sorted(name for name in files if name.endswith(".py"))
        self.modules = {name: units(parse(name, files[name])) for name in names}
        self.units = [unit for module in self.modules.values() for unit in module.walk()]
        self._scopes = {id(unit): collect(unit) for unit in self.units}
        self._set: dict[int, dict[str, BindingSite]] = {}  # by class: where methods set attributes
        self._globals: dict[
            int, dict[str, BindingSite]
        ] = {}  # by module: globals that functions bind
        self._dotted = {_dotted(name): module for name, module in self.modules.items()}

    def scope(self, unit: Unit) -> UnitScope:
        """Return a unit's scope."""
        return self._scopes[id(unit)]

    def imported(self, file: str, module: str, level: int) -> Unit | None:
        """Return the module that an import in `file` names; None if it is not the candidate's."""
        folder = posixpath.dirname(file).replace("/", ".")
        if level:
            parts = folder.split(".") if folder else []
            if level - 1 > len(parts):
                return None
            base = ".".join(parts[: len(parts) - (level - 1)])
            return self._dotted.get(f"{base}.{module}".strip("."))
        beside = f"{folder}.{module}".strip(".")
        return self._dotted.get(module) or self._dotted.get(beside)

    def see(self, name: str, unit: Unit, place: Place, path: Path = ()) -> BindingSite | None:
        """Return the site that a place in a unit sees for a name; None if nothing binds it."""
        scope = self.scope(unit)
        here = scope.sites.get(name, [])
        inner = [s for s in here if s.region and s.region[0] <= place <= s.region[1]]
        if inner:
            return max(inner, key=lambda s: s.region or ())
        own = [site for site in here if site.region is None]
        if own and name not in scope.outer:
            return last_before(own, place, path, self._looped(scope, place))
        if name in scope.outer and own and unit.kind == "module":
            return own[-1]
        return self._outside(name, unit)

    def _outside(self, name: str, unit: Unit) -> BindingSite | None:
        around = unit.parent
        while around is not None:
            sites = self.scope(around).sites.get(name, []) if around.kind != "class" else []
            own = [site for site in sites if site.region is None]
            if own and name not in self.scope(around).outer:
                return own[-1]
            around = around.parent
        return self._declared_global(name, unit) or self._starred(name, unit.module())

    def _declared_global(self, name: str, unit: Unit) -> BindingSite | None:
        """Return where a function binds a name that it declares global."""
        module = unit.module()
        known = self._globals.get(id(module))
        if known is None:
            known = self._globals[id(module)] = {}
            for scope in map(self.scope, module.walk()):
                for each in sorted(scope.outer):
                    if sites := scope.sites.get(each):
                        known.setdefault(each, sites[-1])
        return known.get(name)

    def _starred(self, name: str, module: Unit) -> BindingSite | None:
        """Return the site that a star import gives a name; for libraries, the import itself."""
        stars = self.scope(module).sites.get("*", [])
        for star in reversed(stars):
            source = self.imported(module.file, star.module, star.level)
            if source is None:
                if not hasattr(builtins, name):
                    return star
            elif source is not module and (sites := self.scope(source).sites.get(name)):
                return sites[-1]
        return None

    def member(self, module: Unit, name: str) -> BindingSite | Unit | None:
        """Return what a name means in a module: a site, or a module in a package."""
        sites = [s for s in self.scope(module).sites.get(name, []) if s.region is None]
        if sites:
            return sites[-1]
        if posixpath.basename(module.file) == "__init__.py":
            folder = _dotted(module.file)
            if (inner := self._dotted.get(f"{folder}.{name}".strip("."))) is not None:
                return inner
        return self._starred(name, module)

    def class_attribute(self, owner: Unit, name: str) -> BindingSite | None:
        """Return the site where a class's own body binds a name; methods count."""
        sites = [s for s in self.scope(owner).sites.get(name, []) if s.region is None]
        return sites[-1] if sites else None

    def set_attribute(self, owner: Unit, name: str) -> BindingSite | None:
        """Return where methods set an attribute: `__init__` first, then in file order."""
        known = self._set.get(id(owner))
        if known is None:
            known = self._set[id(owner)] = {}
            methods = [child for child in owner.children if child.kind == "method"]
            for method in sorted(methods, key=lambda m: (m.short != "__init__", m.first)):
                for each, sites in self.scope(method).attributes.items():
                    known.setdefault(each, sites[-1])
        return known.get(name)

    def _looped(self, scope: UnitScope, place: Place) -> bool:
        """Return whether a place lies in a loop of its scope."""
        return any(
            isinstance(node, _LOOPS)
            and (node.lineno, node.col_offset) < place
            and place[0] <= (node.end_lineno or 0)
            for node, _ in scope.statements
        )


def _dotted(file: str) -> str:
    """Return a file's module name as imports write it: `sub/layers.py` is sub.layers."""
    name = posixpath.normpath(file).removesuffix(".py")
    return name.removesuffix("__init__").rstrip("/").replace("/", ".")


# The candidate's classes and their objects: bases, methods, attributes, what a call runs.


_MOST = 20  # classes in a lineage

Infer = Callable[[ast.expr, Unit], Refs]


class ClassLookup:
    """Look-ups in objects and classes; `infer` returns what the name of a base means."""

    def __init__(self, project: CodeProject, infer: Infer) -> None:
        self._project, self._infer = project, infer

    def attribute_site(self, ref: Ref, name: str) -> BindingSite | None:
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
