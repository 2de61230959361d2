"""Checks a recipe's files against its recipe.toml, without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from hpcscientist.errors import RecipeError
from hpcscientist.files.handed import read_regular
from hpcscientist.files.hashing import tree_files
from hpcscientist.recipe import given, knobs
from hpcscientist.recipe.checks.document import read_text
from hpcscientist.recipe.checks.locate import key_lines, line_of
from hpcscientist.recipe.checks.tree import tree_problems
from hpcscientist.recipe.schema import Knob, RecipeSpec
from hpcscientist.records.base import Problem
from hpcscientist.records.idea import KnobValue

RECIPE_FILE = "recipe.toml"
REFERENCE = "reference"
PREPARE = "prepare.py"
SCORER = "score.py"
SEED_IDEAS = "seed_ideas.json"
PLAYBOOK = "playbook.jsonl"
PAPERS_PLAYBOOK = "papers.jsonl"  # recorded replies for writing papers
REVIEWS_PLAYBOOK = "reviews.jsonl"  # recorded replies for reviewing papers

_OPTIONS = {PREPARE: ("--out",), SCORER: ("--predictions", "--labels")}


def file_problems(folder: Path, spec: RecipeSpec) -> Iterator[Problem]:
    """Yield all problems of the recipe's files, except seed ideas and playbooks."""
    recipe_file = folder / RECIPE_FILE
    text = read_text(recipe_file)
    lines = key_lines(text) if isinstance(text, str) else {}
    for key, name in _named_files(spec):
        line = line_of(lines, key)
        if ".." in PurePosixPath(name).parts:
            yield Problem(recipe_file, line, f"{key[0]}: {name!r} leads out of its folder")
        elif key[0] != "predictions" and not (folder / REFERENCE / name).is_file():
            yield Problem(
                recipe_file, line, f"{key[0]}: {REFERENCE}/{name} does not exist; add or rename it"
            )
    if spec.data is not None:
        yield from _list_problems(folder / spec.data.files)
    yield from tree_problems(folder, spec.image)
    yield from _script_problems(folder, spec)
    for path in tree_files(folder / REFERENCE):
        if path.suffix == ".py":
            yield from _python_problems(path)
        elif isinstance(content := read_text(path), Problem):
            yield content
    around = ("setups", spec.setup) if spec.setup else ()
    given = {"constants": (f"{REFERENCE}/{spec.entry}", spec.constants)}
    given |= {"prepare": (PREPARE, spec.prepare)}
    for table, (script, values) in given.items():
        for name in _unknown_constants(folder / script, values):
            line = line_of(lines, (*around, table, name))
            yield Problem(recipe_file, line, f"{name} is no module-level constant of {script}")
    for index, knob in enumerate(spec.knobs):
        line = line_of(lines, ("knobs", index, "name"))
        own = spec.constants if knob.file == spec.entry else {}
        yield from _knob_problems(folder, knob, own, recipe_file, line)


def _list_problems(path: Path) -> Iterator[Problem]:
    try:
        given.read_list(path)
    except RecipeError as error:
        yield Problem(path, error.line, error.problem)


def _named_files(spec: RecipeSpec) -> Iterator[tuple[tuple[str | int, ...], str]]:
    yield ("entry",), spec.entry
    yield ("predictions",), spec.predictions
    for name in spec.editable:
        yield ("editable",), name
    for index, knob in enumerate(spec.knobs):
        yield ("knobs", index, "file"), knob.file


def _script_problems(folder: Path, spec: RecipeSpec) -> Iterator[Problem]:
    """Check prepare.py and score.py, and plot.py if it exists."""
    for name, options in _OPTIONS.items():
        path = folder / name
        broken = list(_python_problems(path, here=True))
        yield from broken
        if broken:
            continue
        words = _strings(path)
        for option in options:
            if option not in words:
                yield Problem(path, 1, f"takes no {option}; its command line needs it")
        if name == SCORER:
            for metric in spec.metrics:
                if metric.name not in words:
                    yield Problem(
                        path,
                        1,
                        f"never names the metric {metric.name!r} of {RECIPE_FILE}; print it",
                    )
    if (folder / "plot.py").exists():
        yield from _python_problems(folder / "plot.py", here=True)


def _python_problems(path: Path, here: bool = False) -> Iterator[Problem]:
    """Check a file's syntax: for this Python if `here`, else for any version an image may have."""
    source = read_text(path)
    if isinstance(source, Problem):
        yield source
        return
    try:
        knobs.parse(source, here)
    except RecipeError as error:
        yield Problem(path, error.line, error.problem)


def _strings(path: Path) -> set[str]:
    """Return the string literals of a script that is known to parse."""
    tree = knobs.parse(read_regular(path).decode("utf-8"))
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _unknown_constants(script: Path, values: Mapping[str, KnobValue]) -> set[str]:
    try:
        return values.keys() - knobs.constants(read_regular(script).decode("utf-8")).keys()
    except (OSError, UnicodeDecodeError, RecipeError):
        return set()  # reported already


def _knob_problems(
    folder: Path, knob: Knob, own: Mapping[str, KnobValue], recipe_file: Path, line: int
) -> Iterator[Problem]:
    path = folder / REFERENCE / knob.file
    try:
        source = read_regular(path).decode("utf-8")
        known = knobs.constants(source)
    except (OSError, UnicodeDecodeError, RecipeError):
        return  # reported already
    if knob.name not in known:
        yield Problem(
            recipe_file,
            line,
            f"knob {knob.name} is no module-level constant of {REFERENCE}/{knob.file}; "
            f"add a line {knob.name} = VALUE there",
        )
        return
    at, value = known[knob.name]
    if reason := knobs.misfit(knob, own.get(knob.name, value)):
        yield Problem(path, at, f"knob {knob.name}: {reason} of {RECIPE_FILE}:{line}")
