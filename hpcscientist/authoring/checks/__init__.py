"""Static checks of generated code before it runs: they report what surely fails once reached.

Nothing is imported or executed. A check that is not certain reports nothing: code that fails
costs one trial, but code that is wrongly refused costs a good idea. Only a trial shows what a
file does when it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from hpcscientist.authoring.checks.calls import call_problems, format_problems
from hpcscientist.authoring.checks.imports import attribute_problems, import_problems
from hpcscientist.authoring.checks.names import name_problems
from hpcscientist.authoring.checks.project import Project
from hpcscientist.files.python_source import UNREADABLE, fault, is_newer, syntax_tree
from hpcscientist.records.base import Problem
from hpcscientist.system.interpreter import HERE, Interpreter

__all__ = ["Problem", "check", "runtime_problems", "syntax_problems"]

_ANY = Interpreter()
_LATE_ANNOTATIONS = (3, 14)  # the first Python that evaluates annotations lazily


def check(
    files: Mapping[str, str],
    packages: Collection[str] | None = None,
    reference: Mapping[str, str] | None = None,
    python: Interpreter = _ANY,
) -> list[Problem]:
    """Return what surely fails in a version of the code, by file and line.

    If `python`, which runs the code, cannot compile a file, only that is reported. `packages` can
    be imported besides the standard library and the files themselves; None: any package may
    exist. A problem that the `reference` has too is not reported, because the reference runs: if
    one of its files does not compile, it does not need that file.
    """
    return syntax_problems(files, reference, python) or runtime_problems(
        files, packages, reference, python
    )


def syntax_problems(
    files: Mapping[str, str],
    reference: Mapping[str, str] | None = None,
    python: Interpreter = _ANY,
) -> list[Problem]:
    """Return the files, other than the reference's, that `python` cannot compile, and why."""
    reference = reference or {}
    own = {n: text for n, text in files.items() if n.endswith(".py") and reference.get(n) != text}
    return [
        Problem(file=name, line=found.line, message=found.message)
        for name, found in sorted(python.faults(own).items())
    ]


def runtime_problems(
    files: Mapping[str, str],
    packages: Collection[str] | None = None,
    reference: Mapping[str, str] | None = None,
    python: Interpreter = _ANY,
) -> list[Problem]:
    """Return what surely fails in files that compile, as `check` does.

    Nothing is reported if a file needs a newer Python than the one that runs the checks: its
    effect on the other files cannot be read here.
    """
    late = (python.version or HERE) >= _LATE_ANNOTATIONS
    problems = _problems(files, packages, late)
    if reference is None or not problems:
        return problems or []
    known = _problems(reference, packages, late)
    if known is None:
        return []
    told = {(p.file, p.message) for p in known}
    return [p for p in problems if (p.file, p.message) not in told]


def _problems(
    files: Mapping[str, str], packages: Collection[str] | None, late: bool
) -> list[Problem] | None:
    """Return all problems; None if a file needs a newer Python than this one."""
    trees = dict[str, ast.Module]()
    for name, text in sorted(files.items()):
        if name.endswith(".py"):
            if (tree := _tree(text)) is not None:
                trees[name] = tree
            elif is_newer(text):
                return None
    return sorted(
        dict.fromkeys(_found(Project(files, trees, late), packages)),
        key=lambda problem: (problem.file, problem.line or 0),
    )


def _tree(text: str) -> ast.Module | None:
    """Return the tree of a file; None if this Python cannot compile it."""
    if fault(text) is not None:
        return None
    try:
        return syntax_tree(text.encode())
    except UNREADABLE:
        return None


def _found(project: Project, packages: Collection[str] | None) -> Iterator[Problem]:
    for module in project.modules.values():
        yield from import_problems(project, module, packages)
        yield from attribute_problems(project, module)
        yield from name_problems(project, module)
        yield from call_problems(project, module)
        yield from format_problems(module)
