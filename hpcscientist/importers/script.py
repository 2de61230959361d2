"""Imports a single script that prints a metric, such as those that AIDE writes."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath

from hpcscientist.errors import RecipeError
from hpcscientist.importers.draft import RecipeDraft
from hpcscientist.importers.program import Program
from hpcscientist.importers.request import Format, ImportRequest
from hpcscientist.importers.wrapped import Wrapping, choose_metrics, code_files, prepare_own, wrap


def read(request: ImportRequest, draft: RecipeDraft) -> None:
    """Fill in the recipe of a script."""
    source = request.source
    scripts = [name for name in source.sizes if name.endswith(".py")]
    if len(scripts) != 1:
        what = "holds no Python file" if not scripts else f"holds {len(scripts)} Python files"
        raise RecipeError(f"{source.path}: {what}; give the script itself")
    text = source.text(scripts[0])
    program = Program(PurePosixPath(scripts[0]).name, text)
    draft.commands.append("hpcsci launch --recipe {recipe} --model search --ideas 6")
    draft.maps(scripts[0], f"the code that ideas edit, reference/{program.name}")
    if request.scorer is None:
        known = program.printed
        names = choose_metrics(draft, request, {} if request.metric else known)
        if request.metric is not None and request.metric not in known:
            draft.warn(
                "metric", f"no print of {request.metric!r} was found; it is looked for all the same"
            )
        prepare_own(draft, request)
    else:
        names = choose_metrics(draft, request, {})
    _say_files(draft, request, program)
    wrap(draft, request, Wrapping(program, "read_printed"), names)
    code_files(draft, {program.name: text})
    said = ast.get_docstring(program.tree) or f"Improve what {program.name} computes."
    title = said.strip().splitlines()[0].rstrip(".") or program.name
    draft.document["topic"] = {
        "title": title[:120],
        "description": said,
        "inputs": "what the script reads",
        "outputs": f"what it prints behind {names[0]!r}" if names else "",
    }


def _say_files(draft: RecipeDraft, request: ImportRequest, program: Program) -> None:
    """Warn about files that the script names: trials see them only if they are given."""
    folder = request.source.path.parent
    for text, line in program.strings.items():
        name = text.strip()
        is_path = 3 < len(name) < 200 and name.isprintable() and "." in name and " " not in name
        if not is_path or request.data is not None:
            continue
        path = PurePosixPath(name)
        if path.is_absolute() and len(path.parts) > 2 and path.suffix:
            draft.warn(f"{program.name}:{line}", f"{name!r} is on this machine alone; use --data")
        elif (
            ".." not in path.parts
            and (folder / path).is_file()
            and folder / path != request.source.path
        ):
            draft.warn(f"{program.name}:{line}", f"{name!r} is read: give what it reads by --data")


FORMAT = Format(
    name="script",
    says="a Python script that prints a metric; self-reported unless --scorer is given",
    read=read,
    options=frozenset({"metric", "direction", "scorer", "predictions", "data", "seconds"}),
)
