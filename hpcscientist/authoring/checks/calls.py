"""Calls whose arguments do not fit, and strings that cannot be formatted with their values.

A call counts only if the called function is certain: these files define it once, no decorator may
change its parameters, and nothing replaces it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from hpcscientist.authoring.checks.module import Module
from hpcscientist.authoring.checks.names import hint
from hpcscientist.authoring.checks.project import Project
from hpcscientist.authoring.checks.scopes import Bind, FlowPlace, Scope
from hpcscientist.records.base import Problem

# Strings that are formatted with too few values, too many, or an invalid format.
#
# `%` is tried on a string without its widths, with the number 1 for each value: an integer suits
# every conversion, so what fails then fails for any values. Pyflakes checks `str.format`.

_ERRORS = ("TypeError", "ValueError", "KeyError", "IndexError", "LookupError")
_WIDTH = re.compile(r"(%(?:\([^()]*\))?[-+ #0]*)(\d+)?((?:\.)(?:\d+))?")
_LARGE = re.compile(r"\d{5}")  # perhaps a width that _WIDTH missed, so a string of that length
_FAILS = (TypeError, ValueError, KeyError, OverflowError)
_LONGEST = 100_000  # characters of a text


def format_problems(module: Module) -> Iterator[Problem]:
    """Yield a problem for each string that cannot be formatted with its values."""
    for node, place in module.notes.formats:
        text = node.left.value if isinstance(node.left, ast.Constant) else None
        if not isinstance(text, str) or place.survives(*_ERRORS) or place.foreign:
            continue
        error = _failure(text, node.right) if len(text) <= _LONGEST else None
        if error:
            yield Problem(file=module.name, line=node.lineno, message=f"% formatting: {error}")
    places = {(n.lineno, n.col_offset): place for n, place in module.notes.calls}
    for line, column, message in _by_pyflakes(module):
        around = places.get((line, column))
        if around and not around.survives(*_ERRORS) and not around.foreign:
            yield Problem(file=module.name, line=line, message=message)


def _failure(text: str, given: ast.expr) -> str | None:
    """Return why a string cannot be formatted with values of this form; None if it may be."""
    plain = _WIDTH.sub(r"\1", text)
    errors = [None] if _LARGE.search(plain) else [_try(plain, v) for v in _values(plain, given)]
    return errors[0] if all(errors) else None


def _values(plain: str, given: ast.expr) -> list[object]:
    """Return values of 1 in each form that the given expression may have."""
    if isinstance(given, ast.Tuple) and not any(isinstance(v, ast.Starred) for v in given.elts):
        return [(1,) * len(given.elts)]
    if isinstance(given, ast.Dict) and all(_is_text(key) for key in given.keys):
        return [dict.fromkeys((key.value for key in given.keys if _is_text(key)), 1)]
    if isinstance(given, ast.JoinedStr) or _is_single(given):
        return [1]
    # Anything else may be a tuple of any length, or a mapping.
    counts = range(plain.count("%") + plain.count("*") + 1)
    return [defaultdict(lambda: 1), *((1,) * count for count in counts)]


def _is_text(node: ast.expr | None) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_single(given: ast.expr) -> bool:
    """Return whether an expression is one value without keys to look up."""
    return isinstance(given, ast.Constant) and not isinstance(given.value, bytes)


def _try(text: str, values: object) -> str | None:
    try:
        text % values
    except _FAILS as error:
        missing = isinstance(error, KeyError)
        return f"no value for {error}" if missing else str(error)
    return None


def _by_pyflakes(module: Module) -> Iterator[tuple[int, int, str]]:
    """Yield line, column and message of each certain Pyflakes finding on `str.format`."""
    from pyflakes import messages  # noqa: PLC0415  # slow, and only campaigns need it

    certain = (
        messages.StringDotFormatInvalidFormat,
        messages.StringDotFormatMissingArgument,
        messages.StringDotFormatMixingAutomatic,
    )
    for message in module.lint:
        if isinstance(message, certain):
            yield message.lineno, message.col, message.message % message.message_args


# The parameters of a function, and whether a call fits them.


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters; `bound` counts arguments that are passed implicitly (self)."""

    name: str
    place: str
    args: ast.arguments
    bound: int = 0

    def misfit(self, call: ast.Call) -> str | None:
        """Return what is wrong with a call's arguments; None if they may fit."""
        return self._too_many(call) or self._keywords(call) or self._missing(call)

    @property
    def _positional(self) -> list[str]:
        return [arg.arg for arg in (*self.args.posonlyargs, *self.args.args)]

    def _too_many(self, call: ast.Call) -> str | None:
        given = sum(not isinstance(arg, ast.Starred) for arg in call.args) + self.bound
        most = len(self._positional)
        if self.args.vararg is not None or given <= most:
            return None
        return f"takes {_count(most, 'positional argument')}, but {given} are given"

    def _keywords(self, call: ast.Call) -> str | None:
        names = [keyword.arg for keyword in call.keywords if keyword.arg is not None]
        named = [arg.arg for arg in (*self.args.args, *self.args.kwonlyargs)]
        taken = self._positional[: self._certain(call)]
        for name in names:
            if name in taken and name in named:
                return f"is given {name!r} twice"
            if name not in named and self.args.kwarg is None:
                return f"has no parameter {name!r}{hint(name, named)}"
        return None

    def _missing(self, call: ast.Call) -> str | None:
        if any(isinstance(arg, ast.Starred) for arg in call.args) or any(
            keyword.arg is None for keyword in call.keywords
        ):
            return None
        positional, defaults = self._positional, len(self.args.defaults)
        needed = positional[: len(positional) - defaults][len(call.args) + self.bound :]
        needed += [
            arg.arg
            for arg, default in zip(self.args.kwonlyargs, self.args.kw_defaults, strict=True)
            if default is None
        ]
        # A keyword named like a positional-only parameter goes to `**kwargs`, if there is one.
        by_position = {arg.arg for arg in self.args.posonlyargs}
        names = {keyword.arg for keyword in call.keywords} - by_position
        lacking = [name for name in needed if name not in names]
        if not lacking:
            return None
        return f"is not given {', '.join(map(repr, lacking))}"

    def _certain(self, call: ast.Call) -> int:
        """Return how many parameters surely get values by position, `self` included."""
        count = self.bound
        for arg in call.args:
            if isinstance(arg, ast.Starred):
                break
            count += 1
        return count


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


Function = ast.FunctionDef | ast.AsyncFunctionDef

# Decorators that keep a function's parameters, as they are usually written.
_KEEPING = frozenset(
    "cache functools.cache lru_cache functools.lru_cache abstractmethod abc.abstractmethod "  # noqa: SIM905
    "override contextmanager contextlib.contextmanager torch.no_grad torch.inference_mode "
    "typing.override".split()
)
# Bases that leave the parameters of a constructor to the class.
_PLAIN_BASES = frozenset(
    "object ABC abc.ABC nn.Module torch.nn.Module Dataset data.Dataset "  # noqa: SIM905
    "torch.utils.data.Dataset Optimizer optim.Optimizer torch.optim.Optimizer Exception "
    "ValueError RuntimeError".split()
)
_NO_ARGUMENTS = ast.arguments([], [], None, [], [], None, [])
# Attributes that change a function's parameters, wherever they are set.
_REWIRING = frozenset(["__defaults__", "__kwdefaults__", "__code__", "__init__", "__new__"])


def call_problems(project: Project, module: Module) -> Iterator[Problem]:
    """Yield a problem for each call that surely does not fit its function."""
    if project.is_patched_at_will or not _REWIRING.isdisjoint(project.patched):
        return
    for call, place in module.notes.calls:
        if place.survives("TypeError") or place.foreign:
            continue
        signature = _called(project, module, call, place)
        wrong = signature.misfit(call) if signature else None
        if signature and wrong:
            message = f"{signature.name}() {wrong} ({signature.place})"
            yield Problem(file=module.name, line=call.lineno, message=message)


def _called(project: Project, module: Module, call: ast.Call, place: FlowPlace) -> Signature | None:
    function = call.func
    if isinstance(function, ast.Name):
        found = _resolved(project, module, function.id, place.scope)
        return _signature(project, *found) if found else None
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        of_self = _of_self(project, module, function, place)
        return of_self or _of_module(project, module, function, place)
    return None


def _resolved(
    project: Project, module: Module, name: str, scope: Scope, steps: int = 9
) -> tuple[Module, Bind] | None:
    """Return the one definition that a name stands for: its file and binding.

    Imports from file to file are followed for at most `steps` steps.
    """
    nearest = (above for above in scope.up() if name in above.binds or name in above.outer)
    owner = next(nearest, None)
    if owner is not None and name in owner.outer:
        owner = owner.outer[name]
    bind = owner.sole(name) if owner is not None else None
    if owner is None or bind is None or owner.kind == "class":
        return None
    if owner.kind == "module" and (module.is_dynamic or name in project.patched_modules):
        return None
    if not isinstance(bind.node, ast.ImportFrom):
        return module, bind
    alias = project.alias(module, bind)
    target = project.modules.get(alias[0]) if alias and alias[1] else None
    if alias is None or target is None or alias[1] is None or steps == 0:
        return None
    return _resolved(project, target, alias[1], target.scope, steps - 1)


def _of_module(
    project: Project, module: Module, function: ast.Attribute, place: FlowPlace
) -> Signature | None:
    assert isinstance(function.value, ast.Name)  # see the caller
    found = _resolved_import(project, module, function.value.id, place.scope)
    target = _resolved(project, found, function.attr, found.scope) if found else None
    return _signature(project, *target) if target else None


def _resolved_import(project: Project, module: Module, name: str, scope: Scope) -> Module | None:
    owner = next((above for above in scope.up() if name in above.binds), None)
    bind = owner.sole(name) if owner is not None and owner.kind != "class" else None
    alias = project.alias(module, bind) if bind else None
    return project.modules.get(alias[0]) if alias and alias[1] is None else None


def _signature(project: Project, module: Module, bind: Bind) -> Signature | None:
    node = bind.node
    if isinstance(node, ast.ClassDef):
        return _constructor(project, module, node)
    if isinstance(node, Function) and _keeps(node):
        return Signature(node.name, f"{module.name}, line {node.lineno}", node.args)
    return None


def _constructor(project: Project, module: Module, node: ast.ClassDef) -> Signature | None:
    line = _line(project, module, node) or []
    for found, class_ in line:
        scope = found.notes.scopes[class_]
        if "__new__" in scope.binds:
            return None
        if "__init__" in scope.binds:
            bind = scope.sole("__init__")
            init = bind.node if bind else None
            if not isinstance(init, Function) or init.decorator_list:
                return None
            return Signature(node.name, f"{found.name}, line {init.lineno}", init.args, bound=1)
    if line and not line[-1][1].bases:
        return Signature(node.name, f"{module.name}, line {node.lineno}", _NO_ARGUMENTS)
    return None


def _line(
    project: Project, module: Module, node: ast.ClassDef
) -> list[tuple[Module, ast.ClassDef]] | None:
    """Return a class and its bases in these files, nearest first; None if one is uncertain."""
    line = [(module, node)]
    while True:
        module, node = line[-1]
        if node.decorator_list or node.keywords or len(node.bases) > 1 or len(line) > 20:
            return None
        if not node.bases:
            return line
        base = node.bases[0]
        scope = module.notes.scopes[node].parent
        found = None
        if isinstance(base, ast.Name) and scope is not None:
            found = _resolved(project, module, base.id, scope)
        if found is not None and isinstance(found[1].node, ast.ClassDef):
            line.append((found[0], found[1].node))
        elif ast.unparse(base) in _PLAIN_BASES:
            return line
        else:
            return None


def _of_self(
    project: Project, module: Module, function: ast.Attribute, place: FlowPlace
) -> Signature | None:
    """Return the signature of a method called on `self`, if only one class has such a method."""
    assert isinstance(function.value, ast.Name)  # see the caller
    name, attr = function.value.id, function.attr
    class_ = _class_of_self(name, place)
    if class_ is None or project.classes.get(attr) != [class_]:
        return None
    if attr in project.patched or "__getattribute__" in project.classes:
        return None
    bind = class_.sole(attr)
    if bind is None or not isinstance(bind.node, Function) or not _keeps(bind.node):
        return None
    where = f"{module.name}, line {bind.node.lineno}"
    return Signature(f"{name}.{attr}", where, bind.node.args, bound=1)


def _class_of_self(name: str, place: FlowPlace) -> Scope | None:
    """Return the class whose method has this name as its first parameter; None if unclear."""
    owner = next((scope for scope in place.scope.up() if name in scope.binds), None)
    class_ = owner.parent if owner is not None else None
    if owner is None or class_ is None or not isinstance(class_.node, ast.ClassDef):
        return None
    method = owner.node
    if not isinstance(method, Function) or not _keeps(method) or owner.sole(name) is None:
        return None
    first = [arg.arg for arg in (*method.args.posonlyargs, *method.args.args)][:1]
    return class_ if first == [name] and not class_.node.decorator_list else None


def _keeps(node: Function) -> bool:
    """Return whether a function's decorators keep its parameters."""
    return all(
        ast.unparse(d.func if isinstance(d, ast.Call) else d) in _KEEPING
        for d in node.decorator_list
    )
