"""Embeds a task's own modules in a script of a recipe, so that the script is a single file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from hpcscientist.importers.draft import Code, template_text
from hpcscientist.importers.program import Program


def holding(modules: Mapping[str, str]) -> Code:
    """Return lines of Python that make the modules importable by their names."""
    rows = "".join(f"    {name!r}: {_lines(text)},\n" for name, text in modules.items())
    body = f"{{\n{rows}}}" if rows else "{}"
    return Code(template_text("foreign_modules").replace("@MODULES@", body).rstrip())


def imported_names(program: Program) -> Iterable[tuple[int, str, str]]:
    """Yield the line, module and name of each import; the name is "" for `import module`.

    A module in the program's own package begins with a dot.
    """
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, "." * node.level + (node.module or ""), alias.name


def _lines(text: str) -> str:
    """Return a readable string literal of a text, with one line per line."""
    parts = "".join(f"        {line!r}\n" for line in text.splitlines(keepends=True))
    return f"(\n{parts}    )" if parts else "''"
