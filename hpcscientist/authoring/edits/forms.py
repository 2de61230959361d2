"""The form in which a model is asked for edits: search and replace, units by name, or parts.

The recipe's files decide which forms are possible. Which edits of this campaign could be applied
decides the form that is offered.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hpcscientist.authoring.edits.application import apply
from hpcscientist.authoring.edits.lexing import is_python
from hpcscientist.authoring.edits.outcome import EditError
from hpcscientist.authoring.edits.parts import is_writable
from hpcscientist.authoring.edits.units import (
    IMPORTS,
    SETTINGS,
    EditUnit,
    find_unit,
    unit_at,
    unit_like,
    units_in,
)
from hpcscientist.files.python_source import UNREADABLE, syntax_tree
from hpcscientist.models.reply_limits import Limit, Limits
from hpcscientist.records.authoring import Edit, UnitEdit

# The unit at fault when edits are refused, so that only this unit is asked for again.


Edits = Sequence[Edit | UnitEdit]


@dataclass(frozen=True, slots=True)
class UnitFault:
    """A unit of some files, and the unusable code that was `written` for it.

    If `written` is "", that code is in the files.
    """

    files: Mapping[str, str]
    unit: EditUnit
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
) -> UnitFault | None:
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
    return None if unit is None else UnitFault(base, unit, written)


def fault_of_file(
    files: Mapping[str, str], edits: Edits, file: str, editable: Sequence[str]
) -> UnitFault | None:
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
) -> UnitFault | None:
    """Return the unit that holds a line of files that parse."""
    unit = None if line is None else unit_at(line, file, units_in(files, editable))
    return None if unit is None else UnitFault(files, unit)


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


Form = Literal["parts", "search", "unit"]

_RECORDS: dict[Form, str] = {"search": "Edit", "unit": "UnitEdit"}
LONGEST = 120  # lines of a unit that a model writes anew; a longer one is edited by searching
_MOST_UNITS = 150  # of a question; beyond it, constants are changed as one block
_MOST_EDITS = 12  # of one reply; without a bound, small models write every unit anew
_MOST_PARTS = 4


@dataclass(frozen=True, slots=True)
class Offer:
    """What edits a question allows: `forms` is one form, or search and unit; `units` are labels."""

    forms: tuple[Form, ...]
    files: tuple[str, ...]
    units: tuple[str, ...]

    @property
    def is_parts(self) -> bool:
        """Return whether parts are named first, and then written one by one."""
        return self.forms == ("parts",)

    def limits(self, least: int | None = None, most: int = _MOST_EDITS) -> Limits:
        """Return the limits that the offer sets a reply: how many edits, which files and units."""
        if self.is_parts:
            return {"changes": Limit(least=least, most=_MOST_PARTS)} | {
                "changes.part": Limit(values=self.units)
            }
        form = _RECORDS[self.forms[0]] if len(self.forms) == 1 else None
        found = {"edits": Limit(least=least, most=most, form=form)}
        if "search" in self.forms:
            found["edits.file"] = Limit(values=self.files)
        if "unit" in self.forms:
            found["edits.unit"] = Limit(values=self.units)
        return found


@dataclass
class Forms:
    """A chooser of the form of a campaign's edits, by the success of earlier ones."""

    setting: Literal["auto", "parts", "search", "unit"]
    editable: Sequence[str]
    _tried: Counter[Form] = field(default_factory=Counter)
    _applied: Counter[Form] = field(default_factory=Counter)

    def offer(
        self,
        files: Mapping[str, str],
        unlike: Offer | None = None,
        near: Collection[str] = (),
    ) -> Offer:
        """Return the offer for some files; `unlike` another offer, if there is a choice.

        Units are preferred. Search is offered if units are too long, or if it did better so far.
        Of parts, only those whose labels are in `near` are offered, if there are any.
        """
        units = units_in(files, self.editable)
        short = [unit for unit in units if unit.length <= LONGEST]
        parts = [unit for unit in short if is_writable(unit)]
        if self.setting == "parts" and parts and all(map(is_python, self.editable)):
            parts = [unit for unit in parts if unit.label in near] or parts
            return Offer(("parts",), tuple(self.editable), tuple(unit.label for unit in parts))
        if len(short) > _MOST_UNITS:
            short = [u for u in short if u.length > 1 or u.name == IMPORTS]
        form: Form = "search" if self.setting == "search" else "unit"
        if self.setting == "auto" and unlike is not None:
            form = "unit" if unlike.forms == ("search",) else "search"
        elif self.setting == "auto" and self._share("search") > self._share("unit"):
            form = "search"
        forms: tuple[Form, ...] = (form,)
        if form == "unit" and (len(short) < len(units) or not short):
            forms = ("search", "unit") if short else ("search",)
        return Offer(forms, tuple(self.editable), tuple(unit.label for unit in short))

    def record(self, offer: Offer, applied: bool) -> None:
        """Record whether edits in the offered form could be applied."""
        if len(offer.forms) == 1:
            self._tried[offer.forms[0]] += 1
            self._applied[offer.forms[0]] += applied

    def _share(self, form: Form) -> float:
        """Return the share of edits that could be applied; one half before any (Laplace's rule)."""
        return (self._applied[form] + 1) / (self._tried[form] + 2)


def of_unit(unit: EditUnit, files: Mapping[str, str], *, is_part: bool = False) -> Offer:
    """Return an offer of one unit, with its file's imports and constants unless it is a part."""
    if is_part:
        return Offer(("parts",), (unit.file,), (unit.label,))
    beside = [u.label for u in units_in(files, [unit.file]) if u.name in (IMPORTS, SETTINGS)]
    names = tuple(dict.fromkeys([unit.label, *beside]))
    return Offer(("unit",), (unit.file,), names)
