"""Finds all problems of a recipe statically, with file and line.

It executes nothing of the recipe; only a trial shows whether the code works.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hpcscientist.recipe.checks.document import read_document
from hpcscientist.recipe.checks.files import (
    PAPERS_PLAYBOOK,
    PLAYBOOK,
    RECIPE_FILE,
    SEED_IDEAS,
    file_problems,
)
from hpcscientist.recipe.checks.replies import playbook_problems, seed_ideas
from hpcscientist.records.base import Problem, Record

__all__ = ["Problem", "check"]


def check(
    path: Path,
    replies: Mapping[str, type[Record]] | None = None,
    papers: Mapping[str, type[Record]] | None = None,
) -> list[Problem]:
    """Return all problems of the recipe in folder `path`. `replies` and `papers` are the reply
    schemas by stage of its playbook and of its papers' playbook.

    If recipe.toml is invalid, the files that it names cannot be checked; only the playbooks and
    the seed ideas are.
    """
    spec = read_document(path / RECIPE_FILE)
    problems = spec if isinstance(spec, list) else list(file_problems(path, spec))
    for setup in () if isinstance(spec, list) else spec.setups:
        own = read_document(path / RECIPE_FILE, setup)
        problems += own if isinstance(own, list) else file_problems(path, own)
    if (path / SEED_IDEAS).exists():
        problems += seed_ideas(path / SEED_IDEAS)[1]
    for name, known in ((PLAYBOOK, replies), (PAPERS_PLAYBOOK, papers)):
        if (path / name).exists():
            problems += playbook_problems(path / name, known)
    return list(dict.fromkeys(problems))
