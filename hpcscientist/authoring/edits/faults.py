"""The unit at fault when edits are refused, so that only this unit is asked for again."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpcscientist.authoring.edits.application import apply
from hpcscientist.authoring.edits.outcome import EditError
from hpcscientist.authoring.edits.units import Unit, find_unit, unit_at, unit_like, units_in
from hpcscientist.files.python_source import UNREADABLE, syntax_tree
from hpcscientist.records.authoring import Edit, UnitEdit

Edits = Sequence[Edit | UnitEdit]


@dataclass(frozen=True, slots=True)
class Fault:
    """A unit of some files, and the unusable code that was `written` for it.

    If `written` is "", that code is in the files.
    """

    files: Mapping[str, str]
    unit: Unit
    written: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the unit's file defines or imports."""
        try:
            body = syntax_tree(self.files.get(self.unit.file, "")).body
        except UNREADABLE:
            return ()
        found = [name for node in body for name in _names(node)]
        return tuple(dict.fromkeys(found))


def fault_of_edit(
    files: Mapping[str, str], edits: Edits, number: int, editable: Sequence[str]
) -> Fault | None:
    """Return the unit that edit `number`, from 0, was meant for, with the other edits applied."""
    edit = edits[number]
    others = apply(files, [*edits[:number], *edits[number + 1 :]], editable)
    base = files if isinstance(others, EditError) else others
    units = units_in(base, editable)
    if isinstance(edit, UnitEdit):
        unit, written = find_unit(edit.unit, units), edit.code
    else:
        text = edit.search or edit.replace
        unit, written = unit_like(text, edit.file, units, base), edit.replace
    return None if unit is None else Fault(base, unit, written)


def fault_of_file(
    files: Mapping[str, str], edits: Edits, file: str, editable: Sequence[str]
) -> Fault | None:
    """Return the unit whose edit broke a file: without that edit the file parses."""
    for number, edit in enumerate(edits):
        name = edit.file if isinstance(edit, Edit) else edit.unit.partition(":")[0]
        if name != file:
            continue
        found = fault_of_edit(files, edits, number, editable)
        if found is not None and found.names:
            return found
    return None


def fault_at(
    files: Mapping[str, str], file: str, line: int | None, editable: Sequence[str]
) -> Fault | None:
    """Return the unit that holds a line of files that parse."""
    unit = None if line is None else unit_at(line, file, units_in(files, editable))
    return None if unit is None else Fault(files, unit)


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]
