"""Names without a value: those that nothing ever binds, and those used before they are bound.

A name counts as undefined if Pyflakes and this package's scopes agree. Pyflakes alone also reports
names that a loop, a `del` or another module binds in time.
"""

from __future__ import annotations

import builtins
import difflib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hpcscientist.authoring.checks.module import MODULE_NAMES, Module
from hpcscientist.authoring.checks.project import Project
from hpcscientist.authoring.checks.scopes import Scope, Use
from hpcscientist.records.base import Problem

# Hints: which known name an unknown name may have meant.

_ALIKE = 0.7  # similarity from 0 to 1; a known name below it is no hint


def hint(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the most similar known name, "" if none is similar."""
    near = difflib.get_close_matches(name, sorted(set(known) - {name}), n=1, cutoff=_ALIKE)
    return f"; did you mean {near[0]!r}?" if near else ""


# `site` adds some names, newer Python versions others.
_BUILTIN = (
    frozenset(dir(builtins))
    | MODULE_NAMES
    | {"exit", "quit", "copyright", "credits", "license", "WindowsError"}
    | {"__class__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__"}
    | {"PythonFinalizationError", "BaseExceptionGroup", "ExceptionGroup", "aiter", "anext"}
    | {"__conditional_annotations__", "__classdict__", "_"}  # `_`: gettext.install
)


def name_problems(project: Project, module: Module) -> Iterator[Problem]:
    """Yield a problem for each use of a name that has no value when it is reached."""
    undefined = _by_pyflakes(module)
    certain = not (module.is_dynamic or project.is_patched_at_will)
    for use in module.notes.uses:
        if use.place.foreign or use.place.survives("NameError", "UnboundLocalError"):
            continue
        owner = use.place.scope.owner(use)
        # Only this file can bind the local names of a function, and no builtin replaces them.
        local = owner is not None and owner.kind == "function"
        if not local and not (certain and _is_global(project, use.name)):
            continue
        if owner is None and (use.node.lineno, use.node.col_offset, use.name) in undefined:
            near = hint(use.name, _visible(use.place.scope) | _BUILTIN)
            said = f"{use.name!r} is not defined{near}"
            yield replace(_problem(module, use, said), undefined=use.name)
        elif owner is not None and _comes_too_early(use, owner):
            yield _problem(module, use, f"{use.name!r} is used before it has a value")


def _is_global(project: Project, name: str) -> bool:
    """Return whether only its own file can give a global name a value."""
    return name not in _BUILTIN and name not in project.patched_modules


def _problem(module: Module, use: Use, message: str) -> Problem:
    return Problem(file=module.name, line=use.node.lineno, message=message)


def _by_pyflakes(module: Module) -> frozenset[tuple[int, int, str]]:
    """Return line, column and name of each use that Pyflakes calls undefined."""
    from pyflakes import messages  # noqa: PLC0415  # slow, and only campaigns need it

    return frozenset(
        (message.lineno, message.col, message.message_args[0])
        for message in module.lint
        if isinstance(message, messages.UndefinedName)
    )


def _visible(scope: Scope) -> set[str]:
    return {name for above in scope.up() for name in above.binds}


def _comes_too_early(use: Use, owner: Scope) -> bool:
    """Return whether nothing can have bound a name when its use in the owner's code is reached.

    False if both are in one loop, and for code that runs at some other time.
    """
    if owner.kind not in ("function", "module") or use.place.later:
        return False
    scope = use.place.scope
    while scope is not owner:
        if scope.kind != "comprehension" or scope.parent is None:
            return False
        scope = scope.parent
    loops = use.place.loops - owner.entered
    return all(
        bind.order > use.order and not loops & (bind.place.loops - owner.entered)
        for bind in owner.binds[use.name]
    )
