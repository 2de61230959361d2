"""Checks of generated code before it is run anywhere: what surely fails once it is reached.

Nothing is imported or executed. A check that is not certain says nothing: code that would have
failed costs one trial, and code that was refused wrongly costs a good idea. What a file does when
it runs, only a trial shows.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from hpcscientist.authoring.checks.calls import call_problems
from hpcscientist.authoring.checks.formats import format_problems
from hpcscientist.authoring.checks.imports import attribute_problems, import_problems
from hpcscientist.authoring.checks.names import name_problems
from hpcscientist.authoring.checks.reading.project import Project
from hpcscientist.authoring.checks.syntax import parsed
from hpcscientist.records.problem import Problem

__all__ = ["Problem", "check"]


def check(
    files: Mapping[str, str],
    packages: Collection[str] | None = None,
    reference: Mapping[str, str] | None = None,
) -> list[Problem]:
    """Return what surely fails in a version of the code, by file and line.

    Where a file does not compile, only that is said. `packages` are what can be imported besides
    the standard library and the files themselves; None: anything may be there. What the
    `reference` has as well is no problem, because it runs: a file of its that does not compile is
    none that it needs.
    """
    problems = _problems(files, packages, reference or {})
    if reference is None or not problems:
        return problems
    known = {(p.file, p.message) for p in _problems(reference, packages, reference)}
    return [p for p in problems if (p.file, p.message) not in known]


def _problems(
    files: Mapping[str, str], packages: Collection[str] | None, reference: Mapping[str, str]
) -> list[Problem]:
    trees, broken = dict[str, ast.Module](), list[Problem]()
    for name, text in sorted(files.items()):
        if name.endswith(".py"):
            tree = parsed(name, text)
            if not isinstance(tree, Problem):
                trees[name] = tree
            elif reference.get(name) != text:
                broken.append(tree)
    return broken or sorted(
        dict.fromkeys(_found(Project(files, trees), packages)),
        key=lambda problem: (problem.file, problem.line or 0),
    )


def _found(project: Project, packages: Collection[str] | None) -> Iterator[Problem]:
    for module in project.modules.values():
        yield from import_problems(project, module, packages)
        yield from attribute_problems(project, module)
        yield from name_problems(project, module)
        yield from call_problems(project, module)
        yield from format_problems(module)
