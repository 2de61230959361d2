"""All of a candidate's files together: modules by import, names by scope, attributes by class."""

from __future__ import annotations

import ast
import builtins
import posixpath
from collections.abc import Mapping

from hpcscientist.authoring.structure.code.scopes import Path, Scope, Site, collect, last_before
from hpcscientist.authoring.structure.code.units import Place, Unit, parse, units

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Project:
    """The parsed files, with every definition and scope in them."""

    def __init__(self, files: Mapping[str, str]) -> None:
        names = sorted(name for name in files if name.endswith(".py"))
        self.modules = {name: units(parse(name, files[name])) for name in names}
        self.units = [unit for module in self.modules.values() for unit in module.walk()]
        self._scopes = {id(unit): collect(unit) for unit in self.units}
        self._set: dict[int, dict[str, Site]] = {}  # by class: where methods set attributes
        self._globals: dict[int, dict[str, Site]] = {}  # by module: globals that functions bind
        self._dotted = {_dotted(name): module for name, module in self.modules.items()}

    def scope(self, unit: Unit) -> Scope:
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

    def see(self, name: str, unit: Unit, place: Place, path: Path = ()) -> Site | None:
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

    def _outside(self, name: str, unit: Unit) -> Site | None:
        around = unit.parent
        while around is not None:
            sites = self.scope(around).sites.get(name, []) if around.kind != "class" else []
            own = [site for site in sites if site.region is None]
            if own and name not in self.scope(around).outer:
                return own[-1]
            around = around.parent
        return self._declared_global(name, unit) or self._starred(name, unit.module())

    def _declared_global(self, name: str, unit: Unit) -> Site | None:
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

    def _starred(self, name: str, module: Unit) -> Site | None:
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

    def member(self, module: Unit, name: str) -> Site | Unit | None:
        """Return what a name means in a module: a site, or a module in a package."""
        sites = [s for s in self.scope(module).sites.get(name, []) if s.region is None]
        if sites:
            return sites[-1]
        if posixpath.basename(module.file) == "__init__.py":
            folder = _dotted(module.file)
            if (inner := self._dotted.get(f"{folder}.{name}".strip("."))) is not None:
                return inner
        return self._starred(name, module)

    def class_attribute(self, owner: Unit, name: str) -> Site | None:
        """Return the site where a class's own body binds a name; methods count."""
        sites = [s for s in self.scope(owner).sites.get(name, []) if s.region is None]
        return sites[-1] if sites else None

    def set_attribute(self, owner: Unit, name: str) -> Site | None:
        """Return where methods set an attribute: `__init__` first, then in file order."""
        known = self._set.get(id(owner))
        if known is None:
            known = self._set[id(owner)] = {}
            methods = [child for child in owner.children if child.kind == "method"]
            for method in sorted(methods, key=lambda m: (m.short != "__init__", m.first)):
                for each, sites in self.scope(method).attributes.items():
                    known.setdefault(each, sites[-1])
        return known.get(name)

    def _looped(self, scope: Scope, place: Place) -> bool:
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
