"""Programs for the tests of what is checked before a trial."""

from __future__ import annotations

from collections.abc import Collection
from textwrap import dedent

from hpcscientist.authoring.checks import check

PACKAGES = ("numpy", "torch")


def found(
    *sources: str, packages: Collection[str] | None = PACKAGES, **named: str
) -> list[tuple[str, int | None, str]]:
    """What is wrong with experiment.py, and files by name (`a__b` is a/b.py)."""
    files = {"experiment.py": dedent("\n".join(sources))}
    files |= {f"{name.replace('__', '/')}.py": dedent(text) for name, text in named.items()}
    files = {name.replace("/init.py", "/__init__.py"): text for name, text in files.items()}
    return [(p.file, p.line, p.message) for p in check(files, packages)]


def messages(*sources: str, packages: Collection[str] | None = PACKAGES, **named: str) -> list[str]:
    """The messages alone."""
    return [message for _, _, message in found(*sources, packages=packages, **named)]
