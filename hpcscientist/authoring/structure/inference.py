"""Which of the candidate's modules, classes, functions and their objects an expression may be.

Inference follows imports, assignments, attributes set in `__init__`, bases, annotations, returned
values, containers and the arguments of known calls. Library objects are unknown, except that some
library wrappers return what they are given, and that calling a torch module runs `forward`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from hpcscientist.authoring.structure.project import (
    ClassLookup,
    CodeProject,
    Ref,
    Refs,
    decorators,
    elements,
    last_name,
    sequence,
    union,
)
from hpcscientist.authoring.structure.scopes import BindingSite, Path, first_parameter
from hpcscientist.authoring.structure.units import FunctionNode, Unit, start_of

# What library calls return, as far as that follows from their arguments.

# By the last part of their name: calls that return their first argument or a stand-in for it,
# calls that hold their arguments, and methods of a library's base that return the object.
_SAME = {"list", "tuple", "set", "sorted", "reversed", "iter", "next", "copy", "deepcopy", "cast"}
_SAME |= {"tqdm", "partial", "compile", "script", "jit", "vmap", "DataLoader", "Subset"}
_SAME |= {"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"}
_HOLDS = {"Sequential", "ModuleList"}
_FLUENT = {"to", "cuda", "cpu", "eval", "train", "float", "half", "double", "bfloat16"}
_FLUENT |= {"requires_grad_", "share_memory"}

_Infer = Callable[[ast.expr], Refs]


def library(node: ast.Call, infer: _Infer, items: Callable[[Refs], Refs]) -> Refs:
    """Return what a library call may return; () if unknown.

    `items` returns what the items of a value may be.
    """
    name = last_name(node.func)
    given = [arg for arg in node.args if not isinstance(arg, ast.Starred)]
    if name == "enumerate" and given:
        return sequence([sequence([(), items(infer(given[0]))])])
    if name == "zip":
        return sequence([sequence([items(infer(value)) for value in given])])
    if name in _HOLDS:
        return _held(node, infer)
    if name in _SAME and (values := [*given, *(keyword.value for keyword in node.keywords)]):
        return infer(values[0])
    if isinstance(node.func, ast.Attribute):
        return _method(name, infer(node.func.value))
    return ()


def _held(node: ast.Call, infer: _Infer) -> Refs:
    if len(node.args) == 1:
        only = node.args[0]
        refs = infer(only.value if isinstance(only, ast.Starred) else only)
        return refs if any(ref.kind == "sequence" for ref in refs) else sequence([refs])
    return sequence([infer(value) for value in node.args])


def _method(name: str, of: Refs) -> Refs:
    if name in _FLUENT or name == "values":
        return of
    return sequence([sequence([(), elements(of)])]) if name == "items" else ()


_DEPTH = 30
_STEPS = 3000  # for one question

Arguments = Mapping[tuple[int, str], list[tuple[ast.expr, Unit, Path]]]


class Inference:
    """One pass of inference; `arguments` are those of the calls that an earlier pass found."""

    def __init__(self, project: CodeProject, arguments: Arguments) -> None:
        self.project = project
        self._arguments = arguments
        self.objects = ClassLookup(project, self.infer)
        self._known: dict[int, Refs] = {}
        self._asked: set[int] = set()
        self._steps = self._cuts = 0

    def infer(self, node: ast.expr, unit: Unit, path: Path = ()) -> Refs:
        """Return what an expression in a unit may be; () if nothing is known."""
        if (known := self._known.get(id(node))) is not None:
            return known
        if not self._asked:
            self._steps, self._cuts = _STEPS, 0
        if id(node) in self._asked or len(self._asked) > _DEPTH or self._steps <= 0:
            self._cuts += 1
            return ()
        self._steps -= 1
        self._asked.add(id(node))
        cuts = self._cuts
        try:
            found = self._infer(node, unit, path)
        finally:
            self._asked.discard(id(node))
        if cuts == self._cuts or not self._asked:  # else a cycle may have hidden something
            self._known[id(node)] = found
        return found

    def _infer(self, node: ast.expr, unit: Unit, path: Path) -> Refs:  # noqa: PLR0911
        match node:
            case ast.Name():
                site = self.project.see(node.id, unit, start_of(node), path)
                return self.site(site) if site is not None else ()
            case ast.Attribute():
                return self.attribute(node, unit, path)
            case ast.Call():
                return self._call(node, unit, path)
            case ast.Tuple() | ast.List() | ast.Set():
                return sequence(self.infer(item, unit, path) for item in node.elts)
            case ast.Dict():
                return sequence(self.infer(item, unit, path) for item in node.values)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return sequence([self.infer(node.elt, unit, path)])
            case ast.DictComp():
                return sequence([self.infer(node.value, unit, path)])
            case ast.Subscript():
                index = node.slice.value if isinstance(node.slice, ast.Constant) else None
                given = self.infer(node.value, unit, path)
                return self.items(given, index if isinstance(index, int) else None)
            case ast.IfExp():
                return union(
                    [self.infer(node.body, unit, path), self.infer(node.orelse, unit, path)]
                )
            case ast.BoolOp():
                return union(self.infer(value, unit, path) for value in node.values)
            case ast.Await() | ast.NamedExpr() | ast.Starred():
                return self.infer(node.value, unit, path)
        return ()

    def site(self, site: BindingSite) -> Refs:
        """Return what the name that a site binds may be."""
        if site.definition is not None:
            is_class = site.definition.kind == "class"
            ref = Ref("class" if is_class else "function", site.definition)
            return (ref, *self._wrapped(site.definition))
        if site.kind == "import":
            return self._import(site)
        if site.kind == "parameter":
            return self._parameter(site)
        if noted := self.annotated(site.note, site.unit):
            return noted
        if site.value is None or site.kind in ("augment", "except"):
            return ()
        found = self.infer(site.value, site.unit, site.path)
        return self.items(found, site.index) if site.element else found

    def _wrapped(self, unit: Unit) -> Refs:
        """Return the functions that the candidate's decorators put in place of a function."""
        found: list[Refs] = []
        if unit.kind != "class" and unit.parent is not None:
            for decorator in getattr(unit.node, "decorator_list", ()):
                for ref in self.infer(decorator, unit.parent):
                    if ref.kind == "function" and ref.unit is not None:
                        found.append(self.returned(ref.unit))
        return tuple(ref for ref in union(found) if ref.kind == "function")

    def items(self, given: Refs, index: int | None = None) -> Refs:
        """Return what the items of something may be."""
        found = [elements(given, index)]
        for ref in given:
            if ref.kind == "instance" and ref.unit is not None:
                if (method := self.objects.method(ref, "__getitem__")) is not None:
                    found.append(self.returned(method))
                elif (method := self.objects.method(ref, "__iter__")) is not None:
                    found.append(elements(self.returned(method)))
        return union(found)

    def _import(self, site: BindingSite) -> Refs:
        found = self.imported(site)
        if isinstance(found, BindingSite):
            return self.site(found)
        if site.member is None:
            module = self.project.imported(site.unit.file, site.module, 0)
        else:
            whole = f"{site.module}.{site.member}".strip(".")
            module = self.project.imported(site.unit.file, whole, site.level)
        return (Ref("module", module),) if module is not None else ()

    def imported(self, site: BindingSite) -> BindingSite | None:
        """Return the site that binds an imported name in the candidate's module that defines it.

        None for libraries, whole modules and names that the module lacks. If modules re-export a
        name, the module that defines it counts.
        """
        seen: list[BindingSite] = []
        while site.kind == "import" and site.member is not None and site not in seen:
            seen.append(site)
            module = self.project.imported(site.unit.file, site.module, site.level)
            member = self.project.member(module, site.member) if module is not None else None
            if not isinstance(member, BindingSite):
                return None
            site = member
        return site if seen and site not in seen else None

    def _parameter(self, site: BindingSite) -> Refs:
        unit = site.unit
        if unit.owner is not None and site.name == first_parameter(unit):
            is_class = "classmethod" in decorators(unit)
            return (Ref("class" if is_class else "instance", unit.owner),)
        found = [self.annotated(_annotation(unit, site.name), unit)]
        for value, caller, path in self._arguments.get((id(unit), site.name), ()):
            found.append(self.infer(value, caller, path))
        if site.value is not None and unit.parent is not None:
            found.append(self.infer(site.value, unit.parent))
        return union(found)

    def annotated(self, note: ast.expr | None, unit: Unit) -> Refs:
        """Return instances of the candidate's class that an annotation names."""
        while isinstance(note, ast.BinOp):  # `Net | None`
            note = note.left
        if isinstance(note, ast.Constant) and isinstance(note.value, str):
            site = self.project.see(note.value, unit.module(), (10**9, 0))
            refs = self.site(site) if site is not None else ()
        else:
            refs = self.infer(note, unit.parent or unit) if note is not None else ()
        return tuple(Ref("instance", ref.unit) for ref in refs if ref.kind == "class")

    def attribute(self, node: ast.Attribute, unit: Unit, path: Path) -> Refs:
        """Return what an attribute may be."""
        found: list[Refs] = []
        for ref in self.infer(node.value, unit, path):
            if ref.kind == "module" and ref.unit is not None:
                member = self.project.member(ref.unit, node.attr)
                if isinstance(member, Unit):
                    found.append((Ref("module", member),))
                elif member is not None:
                    found.append(self.site(member))
            elif ref.kind in ("instance", "class"):
                found.append(self._of_object(ref, node.attr))
        return union(found)

    def _of_object(self, ref: Ref, name: str) -> Refs:
        if (site := self.objects.attribute_site(ref, name)) is not None:
            refs = self.site(site)
            if site.definition is not None and "property" in decorators(site.definition):
                return self.returned(site.definition)
            return refs
        stands_for = {"start": "run", "apply": "forward"}.get(name)  # threads, autograd functions
        if stands_for and not (name == "apply" and ref.kind == "instance"):
            method = self.objects.method(ref, stands_for)
            return (Ref("function", method),) if method is not None else ()
        return ()

    def _call(self, node: ast.Call, unit: Unit, path: Path) -> Refs:
        name = last_name(node.func)
        if name == "super" and isinstance(node.func, ast.Name):
            method = _method_around(unit)
            return (Ref("instance", method.owner, above=True),) if method is not None else ()
        refs = self.infer(node.func, unit, path)
        if not refs:
            return library(node, lambda value: self.infer(value, unit, path), self.items)
        found: list[Refs] = []
        for ref in refs:
            if ref.kind == "class":
                found.append((Ref("instance", ref.unit),))
            else:
                found += [self.returned(target) for target in self.objects.called(ref)]
        return union(found)

    def returned(self, unit: Unit) -> Refs:
        """Return what a function may return; values that it yields form a sequence."""
        if not isinstance(unit.node, FunctionNode):
            return ()
        if noted := self.annotated(unit.node.returns, unit):
            return noted
        found: list[Refs] = []
        yielded: list[Refs] = []
        for node, path in self.project.scope(unit).statements:
            if isinstance(node, ast.Return) and node.value is not None:
                found.append(self.infer(node.value, unit, path))
            elif isinstance(node, ast.Expr) and isinstance(given := node.value, ast.Yield):
                yielded.append(self.infer(given.value, unit, path) if given.value else ())
        return union([*found, sequence([union(yielded)])])


def _annotation(unit: Unit, name: str) -> ast.expr | None:
    if not isinstance(unit.node, FunctionNode):
        return None
    given = unit.node.args
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        if argument.arg == name:
            return argument.annotation
    return None


def _method_around(unit: Unit | None) -> Unit | None:
    while unit is not None and unit.kind != "method":
        unit = unit.parent
    return unit
