"""What a proposal changes: which constants and definitions of the reference it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping

from hpcscientist.errors import RecipeError
from hpcscientist.recipe.knobs import parse
from hpcscientist.records.idea import Proposal

_LIKE_CODE = re.compile(r"`([^`\s]+)`|\b(\w*_\w*)\b|\b(\w+)\(|\b([A-Z][A-Z0-9_]+)\b")
_WORD = re.compile(r"\w+")
_TEXTS = ("title", "method", "technical_details", "experiment_plan")


def defined(reference: Mapping[str, str], files: Iterable[str]) -> frozenset[str]:
    """Return the names at the top of some files' code, without case."""
    names = set[str]()
    for file in files:
        try:
            body = parse(reference.get(file, "")).body
        except RecipeError:  # a file of another kind
            continue
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name.casefold())
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {
                    target.id.casefold() for target in targets if isinstance(target, ast.Name)
                }
    return frozenset(names)


def touched(proposal: Proposal, names: Collection[str]) -> tuple[str, ...]:
    """Return the names that a proposal writes as code does, sorted; prose counts for nothing."""
    found = set[str]()
    for text in _TEXTS:
        for match in _LIKE_CODE.finditer(getattr(proposal, text)):
            written = next(group for group in match.groups() if group)
            found |= {word.casefold() for word in _WORD.findall(written)}
    return tuple(sorted(found.intersection(names)))
