"""A walk over a file's tree in order of evaluation that notes scopes, uses, imports and calls."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from hpcscientist.authoring.checks.scopes import ANYTHING, Bind, FlowPlace, Kind, Scope, Use

# What conditions, handlers and `with` say about the code inside them.

# A condition with one of these names tests where the code runs, not its data.
_FOREIGN = frozenset(
    "version_info hexversion version python_version implementation platform system PY2 PY3 "  # noqa: SIM905
    "environ getenv find_spec TYPE_CHECKING".split()
)
_ENDS = frozenset(["exit", "_exit", "quit", "abort"])
_RAISES = frozenset(["raises", "assertRaises", "assertRaisesRegex"])


def is_main(test: ast.expr) -> bool:
    """Return whether a condition is `__name__ == "__main__"`."""
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(test))


def is_foreign(test: ast.expr) -> bool:
    """Return whether a condition tests the Python version or the system, or is never true."""
    if isinstance(test, ast.Constant) and not test.value:
        return True
    return any(_last(node) in _FOREIGN for node in ast.walk(test))


def may_leave(statement: ast.stmt) -> bool:
    """Return whether the code after a statement in its block may not be reached."""
    if isinstance(statement, ast.If):
        return _ends(statement.body) or _ends(statement.orelse)
    if isinstance(statement, ast.Try | ast.TryStar):
        return any(_ends(handler.body) for handler in statement.handlers)
    return _ends([statement])


def caught_in(node: ast.Try | ast.TryStar) -> frozenset[str]:
    """Return the exceptions after which a `try` goes on; ANYTHING if they are unknown."""
    return frozenset(
        name
        for handler in node.handlers
        if not _ends_the_run(handler.body)
        for name in _names(handler.type)
    )


def suppressed(item: ast.withitem) -> frozenset[str]:
    """Return the exceptions that a `with` suppresses."""
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


# Control flow: which loops, conditions and handlers are around each statement.

# ruff: noqa: D102  # `visit_X` visits an X


class Flow(ast.NodeVisitor, ABC):
    """A visitor that goes in order of evaluation and keeps track of its place."""

    def __init__(self, scope: Scope) -> None:
        self._place = FlowPlace(scope)

    @abstractmethod
    def _bind(self, name: str, node: ast.AST, handler: int | None = None) -> None:
        """Note that a name gets a value here."""

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Visit statements; after one that may leave the block, the rest may not be reached."""
        before = self._place
        for statement in body:
            self.visit(statement)
            if may_leave(statement):
                self._place = replace(self._place, maybe=True)
        self._place = before

    @contextmanager
    def _at(self, place: FlowPlace) -> Iterator[None]:
        before, self._place = self._place, place
        try:
            yield
        finally:
            self._place = before

    def _looped(self, node: ast.AST) -> FlowPlace:
        return replace(self._place, loops=self._place.loops | {id(node)})

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        here = self._place
        foreign = here.foreign or is_foreign(node.test)
        maybe = here.maybe or not is_main(node.test)
        with self._at(replace(here, maybe=maybe, foreign=foreign)):
            self.block(node.body)
        with self._at(replace(here, maybe=True, foreign=foreign)):
            self.block(node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        foreign = self._place.foreign or is_foreign(node.test)
        with self._at(replace(self._place, foreign=foreign)):
            self._visit_all([node.body, node.orelse])

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        with self._at(self._looped(node)):
            self.visit(node.target)
            self.block(node.body)
        self.block(node.orelse)

    visit_AsyncFor = visit_For  # noqa: N815

    def visit_While(self, node: ast.While) -> None:
        with self._at(self._looped(node)):
            self.visit(node.test)
            self.block(node.body)
        self.block(node.orelse)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        self._visit_all(node.items)
        caught = {name for item in node.items for name in suppressed(item)}
        with self._at(replace(self._place, caught=self._place.caught | caught)):
            self.block(node.body)

    visit_AsyncWith = visit_With  # noqa: N815

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        here, caught = self._place, caught_in(node)
        with self._at(replace(here, caught=here.caught | caught)):
            self.block(node.body)
        lenient = not caught.isdisjoint({ANYTHING, "ImportError", "ModuleNotFoundError"})
        for handler in node.handlers:
            inside = replace(here, maybe=True, handlers=here.handlers | {id(handler)})
            with self._at(inside):
                if handler.type is not None:
                    self.visit(handler.type)
                if handler.name is not None:
                    self._bind(handler.name, handler, id(handler))
                self.block(handler.body)
        with self._at(replace(here, maybe=here.maybe or lenient)):
            self.block(node.orelse)
        self.block(node.finalbody)

    visit_TryStar = visit_Try  # noqa: N815

    def visit_match_case(self, node: ast.match_case) -> None:
        with self._at(replace(self._place, maybe=True)):
            self._visit_all([node.pattern, node.guard])
            self.block(node.body)

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)


_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(slots=True)
class Notes:
    """What a file's tree holds, in the order of evaluation."""

    module: Scope
    scopes: dict[ast.AST, Scope] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)
    imports: list[tuple[ast.Import | ast.ImportFrom, FlowPlace]] = field(default_factory=list)
    calls: list[tuple[ast.Call, FlowPlace]] = field(default_factory=list)
    attributes: list[tuple[ast.Attribute, FlowPlace]] = field(default_factory=list)
    formats: list[tuple[ast.BinOp, FlowPlace]] = field(default_factory=list)


def walk(tree: ast.Module, late: bool = False) -> Notes:
    """Return the notes on a tree. Raises RecursionError if it is too deep.

    `late`: annotations are evaluated lazily.
    """
    walker = _Walker(tree, late)
    walker.block(tree.body)
    return walker.notes


class _Walker(Flow, ast.NodeVisitor):
    def __init__(self, tree: ast.Module, late: bool) -> None:
        module = Scope("module", tree, None)
        super().__init__(module)
        self.notes = Notes(module, {tree: module})
        self._order = 0
        self._late = late or any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in tree.body
        )

    # Names, imports, calls, attributes and formats.

    def _next(self) -> int:
        self._order += 1
        return self._order

    def _bind(self, name: str, node: ast.AST, handler: int | None = None) -> None:
        scope = self._place.scope
        while scope.kind == "comprehension" and isinstance(node, ast.NamedExpr):
            assert scope.parent is not None  # only a module has none
            scope = scope.parent
        scope = scope.outer.get(name, scope)
        bind = Bind(name, node, self._next(), self._place, handler)
        scope.binds.setdefault(name, []).append(bind)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.notes.uses.append(Use(node.id, node, self._next(), self._place))
        else:
            self._bind(node.id, node)

    def visit_Import(self, node: ast.Import) -> None:
        self.notes.imports.append((node, self._place))
        for alias in node.names:
            self._bind(alias.asname or alias.name.partition(".")[0], node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.notes.imports.append((node, self._place))
        for alias in node.names:
            self._bind(alias.asname or alias.name, node)

    def visit_Call(self, node: ast.Call) -> None:
        self.notes.calls.append((node, self._place))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.notes.attributes.append((node, self._place))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Mod):
            self.notes.formats.append((node, self._place))
        self.generic_visit(node)

    # Statements that bind after they use.

    def visit_Assign(self, node: ast.Assign) -> None:
        self._visit_all([node.value, *node.targets])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            used = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
            self.visit(used)
        self._visit_all([node.value, node.target])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._visit_all([node.value, node.target])
        elif not isinstance(node.target, ast.Name):  # `x: int` alone gives x no value
            self.visit(node.target)
        if not self._late and self._place.scope.kind != "function":
            self.visit(node.annotation)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._bind(node.target.id, node)

    def visit_Global(self, node: ast.Global) -> None:
        scope = self._place.scope
        scope.outer.update(dict.fromkeys(node.names, scope.module))

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        scope = self._place.scope
        for name in node.names:
            above = [s for s in scope.up() if s is not scope and s.kind == "function"]
            owner = next((s for s in above if name in s.binds), above[0] if above else scope)
            scope.outer[name] = owner.outer.get(name, owner)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self.generic_visit(node)
        if node.name is not None:
            self._bind(node.name, node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name is not None:
            self._bind(node.name, node)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        if node.rest is not None:
            self._bind(node.rest, node)

    # Scopes.

    def _enter(self, kind: Kind, node: ast.AST, *, later: bool) -> FlowPlace:
        scope = Scope(kind, node, self._place.scope, self._place.loops)
        self.notes.scopes[node] = scope
        return replace(self._place, scope=scope, later=later)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_all([*node.decorator_list, *_defaults(node.args)])
        self._type_parameters(node)
        if not self._late:
            self._visit_all([*(arg.annotation for arg in _arguments(node.args)), node.returns])
        self._bind(node.name, node)
        self._function(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all(_defaults(node.args))
        self._function(node, [ast.copy_location(ast.Expr(node.body), node.body)])

    def _function(self, node: _Function, body: Sequence[ast.stmt]) -> None:
        with self._at(self._enter("function", node, later=False)):
            for argument in _arguments(node.args):
                self._bind(argument.arg, argument)
            self.block(body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._type_parameters(node)
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        with self._at(self._enter("class", node, later=False)):
            self.block(node.body)
        self._bind(node.name, node)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> None:
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self.visit(node.generators[0].iter)
        later = self._place.later or isinstance(node, ast.GeneratorExp)
        inside = self._enter("comprehension", node, later=later)
        with self._at(replace(inside, loops=inside.loops | {id(node)})):
            for number, generator in enumerate(node.generators):
                if number:
                    self.visit(generator.iter)
                self._visit_all([generator.target, *generator.ifs])
            self._visit_all(results)

    visit_ListComp = _comprehension  # noqa: N815
    visit_SetComp = _comprehension  # noqa: N815
    visit_GeneratorExp = _comprehension  # noqa: N815
    visit_DictComp = _comprehension  # noqa: N815

    def _type_parameters(self, node: ast.AST) -> None:
        """Bind type parameters in the scope around them; more code sees them than in Python."""
        for parameter in getattr(node, "type_params", ()):
            self._bind(parameter.name, parameter)

    def visit_TypeAlias(self, node: ast.AST) -> None:
        """Bind the name of an alias; its value is evaluated lazily."""
        self._type_parameters(node)
        self.visit(node.name)  # type: ignore[attr-defined]  # Python 3.12


def _arguments(args: ast.arguments) -> list[ast.arg]:
    more = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *more]


def _defaults(args: ast.arguments) -> list[ast.expr | None]:
    return [*args.defaults, *args.kw_defaults]
