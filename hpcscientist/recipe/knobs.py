"""Knobs: module-level constants of the reference code, read and set by position in the source.

A constant is `NAME = literal` or `NAME: type = literal` at module level, where the literal is a
number, a string or a boolean. The source is never executed. Setting a constant changes no other
character of the source, comments included.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from hpcscientist.errors import RecipeError
from hpcscientist.files.python_source import is_newer, readable_part, syntax_tree
from hpcscientist.recipe.schema import Knob
from hpcscientist.records.idea import KnobValue

# Sources whose constants and program are kept: every attempt is compared with the same reference.
_REMEMBERED = 64


def constants(source: str) -> dict[str, tuple[int, KnobValue]]:
    """Return the line, from 1, and the value of each module-level constant.

    Raises RecipeError, with the line, if the source is not valid Python.
    """
    return {name: (node.lineno, value) for name, node, value in _assignments(source)}


def set_constants(source: str, values: Mapping[str, KnobValue]) -> str:
    """Return the source with constants set. Raises RecipeError if one is missing."""
    found = [(n, node) for n, node, _ in _assignments(source) if n in values]
    missing = sorted(set(values) - {name for name, _ in found})
    if missing:
        raise RecipeError(
            f"there is no module-level constant {missing[0]}; add a line {missing[0]} = VALUE"
        )
    data = source.encode()
    starts = _line_starts(data)
    for name, node in sorted(found, key=lambda item: (item[1].lineno, item[1].col_offset))[::-1]:
        # Columns count UTF-8 bytes. Go backwards, so that earlier positions stay valid.
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        data = data[:begin] + _literal(name, values[name]).encode() + data[end:]
    return data.decode()


def misfit(knob: Knob, value: KnobValue) -> str | None:
    """Return why a value does not fit a knob; None if it does."""
    if knob.type == "choice":
        if any(type(c) is type(value) and c == value for c in knob.choices):
            return None
        return f"{value!r} is not among its choices {list(knob.choices)!r}"
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or (knob.type == "int" and not isinstance(value, int)):
        return f"{value!r} is not of type {knob.type}"
    low, high = knob.low, knob.high
    if low is not None and high is not None and not low <= float(value) <= high:
        return f"{value!r} is not between {low:g} and {high:g}"
    return None


def only_settings(
    reference: Mapping[str, str], files: Mapping[str, str], knobs: Sequence[Knob]
) -> dict[str, KnobValue]:
    """Return the knobs that files set differently from the reference, if nothing else differs.

    {} if anything else differs, or nothing does. Comments, docstrings and layout do not count.
    """
    if files.keys() != reference.keys():
        return {}
    found: dict[str, KnobValue] = {}
    for name in sorted(files):
        if files[name] == reference[name]:
            continue
        try:
            own, new = constants(reference[name]), constants(files[name])
            shared = {k.name for k in knobs if k.file == name} & own.keys() & new.keys()
            back = set_constants(files[name], {knob: own[knob][1] for knob in shared})
            if _program(back) != _program(reference[name]):
                return {}
        except (RecipeError, RecursionError):
            return {}
        values = {knob: (own[knob][1], new[knob][1]) for knob in sorted(shared)}
        found |= {k: new for k, (old, new) in values.items() if repr(old) != repr(new)}
    return found


@lru_cache(maxsize=_REMEMBERED)
def _program(source: str) -> str:
    """Return a source's syntax tree as text, without docstrings, for comparison."""
    tree = parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            has_docstring = ast.get_docstring(node, clean=False) is not None
            node.body = node.body[1:] if has_docstring else node.body
    return ast.dump(tree)


@lru_cache(maxsize=_REMEMBERED)
def _assignments(source: str) -> Sequence[tuple[str, ast.expr, KnobValue]]:
    found: list[tuple[str, ast.expr, KnobValue]] = []
    for statement in parse(source).body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, node = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, node = statement.target, statement.value
        else:
            continue
        if not isinstance(target, ast.Name):
            continue
        try:
            value = ast.literal_eval(node)
        except ValueError:
            continue
        if isinstance(value, int | float | str | bool):
            found.append((target.id, node, value))
    return found


def parse(source: str, here: bool = False) -> ast.Module:
    """Parse a source. Of one for a newer Python, parse the readable part, unless `here`.

    `here`: the source runs with this Python. Raises RecipeError, with the line, if it is invalid.
    """
    try:
        return syntax_tree(source)
    except SyntaxError as error:
        if not here and is_newer(source):
            return syntax_tree(readable_part(source))
        raise RecipeError(f"not valid Python: {error.msg}", line=error.lineno) from None
    except ValueError as error:  # null bytes
        raise RecipeError(f"not valid Python: {error}") from None
    except (RecursionError, MemoryError):  # the latter: its parser's stack overflowed
        raise RecipeError("not valid Python: nested too deeply") from None


def _line_starts(data: bytes) -> list[int]:
    """Return the offset of each line, by Python's line ends (LF, CRLF, CR)."""
    starts = [0]
    for i, byte in enumerate(data):
        if byte == 0x0A or (byte == 0x0D and data[i + 1 : i + 2] != b"\n"):
            starts.append(i + 1)
    return starts


def _literal(name: str, value: KnobValue) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        raise RecipeError(f"{name} cannot be set to {value!r}; choose a finite number")
    return repr(value)
