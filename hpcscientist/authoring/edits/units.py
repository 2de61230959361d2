"""Edits by unit: a function, class, method, constant or the imports of a file, given by name.

Small models copy search texts wrongly. They get a name from a list right, and a schema can hold
them to the list. What the new code defines replaces what the file has by that name; what is new is
added beside the unit that the edit names. So code that repeats more than its unit does no harm.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from hpcscientist.authoring.edits import matching
from hpcscientist.authoring.edits.lexing import fault, is_python
from hpcscientist.authoring.edits.outcome import Changed, Refusal
from hpcscientist.files.python_source import UNREADABLE, syntax_tree
from hpcscientist.records.authoring import UnitEdit

IMPORTS, SETTINGS, MAIN, WHOLE = "imports", "settings", "__main__", "whole file"
_AROUND_NAME = re.compile(r"^(?:async def|def|class|function|method) +|\(.*\):?$|:$")
_IMPORT = (ast.Import, ast.ImportFrom)
_DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class EditUnit:
    """A part of a file: its lines, from 1, both inclusive, and their indentation.

    `name` is one such as `train`, `Net.forward`, `LEARNING_RATE` or `lines 8-20` (code without a
    name). Or it is a constant of this module: IMPORTS (all imports), SETTINGS (from the first
    constant to the last), MAIN (what runs if the file is run), or WHOLE (the whole file).
    """

    file: str
    name: str
    first: int
    last: int
    indent: str = ""

    @property
    def label(self) -> str:
        """The label by which an edit names the unit."""
        return f"{self.file}: {self.name}"

    @property
    def length(self) -> int:
        """The number of its lines."""
        return self.last - self.first + 1

    @property
    def owner(self) -> str:
        """The class of a method; "" for other units."""
        return self.name.rpartition(".")[0]

    def text(self, files: Mapping[str, str]) -> str:
        """Return its lines without their common indentation."""
        lines = files.get(self.file, "").split("\n")[self.first - 1 : self.last]
        return textwrap.dedent("\n".join(lines))


@lru_cache(maxsize=256)  # prompts of all ideas begin with the same files
def units_of(file: str, text: str | None) -> tuple[EditUnit, ...]:
    """Return the units of a file.

    If it does not exist, is empty or not Python, or cannot be parsed, the whole file is the only
    unit.
    """
    tree = _tree(text) if text is not None and is_python(file) else None
    if text is None or tree is None or not tree.body:
        return (EditUnit(file, WHOLE, 1, len((text or "").splitlines())),)
    imports = [node for node in tree.body if isinstance(node, _IMPORT)]
    head = _end(tree.body[0]) if _is_text(tree.body[0]) else 0
    found = [
        EditUnit(file, IMPORTS, imports[0].lineno, _end(imports[-1]))
        if imports
        else EditUnit(file, IMPORTS, head + 1, head)
    ]
    constants = [node for node in tree.body if _constant(node)]
    if len(constants) > 1:
        found.append(EditUnit(file, SETTINGS, constants[0].lineno, _end(constants[-1])))
    # A line that two statements share belongs to neither.
    ends = Counter(line for node in tree.body for line in {_first(node), _end(node)})
    for node in tree.body:
        if (
            isinstance(node, _IMPORT)
            or _is_text(node)
            or max(ends[_first(node)], ends[_end(node)]) > 1
        ):
            continue
        first, last = _first(node), _end(node)
        where = f"line {first}" if first == last else f"lines {first}-{last}"
        found.append(EditUnit(file, _name(node) or where, first, last))
        if isinstance(node, ast.ClassDef):
            found += [
                EditUnit(file, f"{node.name}.{m.name}", _first(m), _end(m), _indent(text, m))
                for m in node.body
                if isinstance(m, _FUNCTION)
            ]
    last_of = {unit.name: unit for unit in found}  # the last of several definitions counts
    return tuple(unit for unit in found if last_of[unit.name] is unit)


def units_in(files: Mapping[str, str], names: Iterable[str]) -> tuple[EditUnit, ...]:
    """Return the units of some files, which need not exist."""
    return tuple(unit for name in names for unit in units_of(name, files.get(name)))


def find_unit(label: str, units: Sequence[EditUnit]) -> EditUnit | None:
    """Return the unit that a label means; None if it means none, or more than one."""
    wanted = " ".join(label.split())
    exactly = next((unit for unit in units if unit.label == wanted), None)
    if exactly is not None:
        return exactly
    file, _, name = wanted.rstrip(":").rpartition(":")
    file, name = file.rstrip(": "), _AROUND_NAME.sub("", name.strip(" `'\"")).strip()
    of_file = [unit for unit in units if file in ("", unit.file)]
    found = [u for u in of_file if u.name == name] or [
        u for u in of_file if u.owner and u.name.rpartition(".")[2] == name
    ]
    return found[0] if len(found) == 1 else None


def unit_at(line: int, file: str, units: Sequence[EditUnit]) -> EditUnit | None:
    """Return the smallest unit that holds a line of a file."""
    around = [u for u in units if u.file == file and u.first <= line <= u.last]
    return min(around, key=lambda unit: unit.length, default=None)


def unit_like(
    text: str, file: str, units: Sequence[EditUnit], files: Mapping[str, str]
) -> EditUnit | None:
    """Return the unit of a file that shares most lines with a text, the smallest of equals.

    None if no unit shares any.
    """
    said = {line.strip() for line in text.split("\n") if line.strip()}

    def shared(unit: EditUnit) -> int:
        return len(said.intersection(line.strip() for line in unit.text(files).split("\n")))

    of_file = [unit for unit in units if unit.file == file]
    best = max(of_file, key=lambda unit: (shared(unit), -unit.length), default=None)
    return best if best is not None and shared(best) else None


def apply_unit(
    files: Mapping[str, str], edit: UnitEdit, editable: Iterable[str]
) -> tuple[str, Changed] | Refusal:
    """Return the file that an edit changes and the change, or why the edit is refused."""
    units = units_in(files, editable)
    unit = find_unit(edit.unit, units)
    if unit is None:
        return Refusal(
            f"there is no unit {' '.join(edit.unit.split())[:80]!r} that may be changed, or more "
            "than one; take one of those listed"
        )
    old, python = files.get(unit.file), is_python(unit.file)
    if unit.name == WHOLE:
        whole = matching.whole_file(old, edit.code, unit.file, python)
        return whole if isinstance(whole, Refusal) else (unit.file, whole)
    bare = matching.whole_file(None, textwrap.dedent(edit.code), unit.file, python)
    if isinstance(bare, Refusal):
        return bare
    own = {other.name: other for other in units if other.file == unit.file}
    merged = _Merge(old or "", unit, own).with_code(bare.text, edit.action)
    if isinstance(merged, Refusal):
        return merged
    return unit.file, replace(bare, text=merged, matched="unit", first=unit.first, last=unit.last)


def without_idle_imports(old: str, new: str) -> str:
    """Return a new text without unused imports that the old one lacks.

    Small models import what they know, whether it can be imported here or not.
    """
    tree = _tree(new)
    if tree is None:
        return new
    there = {ast.dump(node) for node in _body(old)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {"*", "annotations"}
    begun = Counter(node.lineno for node in tree.body)
    lines = new.split("\n")
    for node in reversed(tree.body):
        if not isinstance(node, _IMPORT) or ast.dump(node) in there or begun[node.lineno] > 1:
            continue
        bound = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        if not bound & used:
            del lines[node.lineno - 1 : _end(node)]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A statement of new code with the comments before it."""

    node: ast.stmt
    lines: tuple[str, ...]


@dataclass(slots=True)
class _Merge:
    """A merge of new code into a file, as replaced units and lines inserted before a line."""

    old: str
    unit: EditUnit
    units: Mapping[str, EditUnit]
    _replaced: dict[str, Sequence[str]] = field(default_factory=dict)
    _inserted: list[tuple[int, Sequence[str]]] = field(default_factory=list)

    def with_code(self, code: str, action: str) -> str | Refusal:
        """Return the file's new text, or why the code is refused."""
        unit, adds = self.unit, action == "add"
        code = textwrap.dedent(code).strip("\n")
        if not code.strip():
            return Refusal("the code is empty; write the whole unit")
        tree = _tree(code)
        known = {line.strip() for line in self.old.split("\n")}
        # Outside definitions a marker stands for the rest of the file, which stays anyway.
        inside = [code] if tree is None else map("\n".join, _definitions(code, tree))
        if any(matching.markers(text.split("\n"), known) for text in inside):
            return Refusal("the code leaves lines out; write the whole unit from its first line on")
        broken = fault(code) if tree is None else None
        if tree is None and unit.name in (IMPORTS, SETTINGS) and not adds:
            # What lies between them would be lost.
            broken = broken or "this Python is too old; write simpler code"
        if broken is not None:
            return Refusal(f"the code of {unit.name} cannot be read: {broken}")
        if tree is None:  # for a newer Python than this one
            if adds:
                self._add(unit, code.split("\n"))
            else:
                self._replaced[unit.name] = code.split("\n")
            return self._text()
        pieces = self._unwrapped(_pieces(code, tree))
        of_function = isinstance(_node(self.old, unit), _DEFINITION)
        if of_function and not adds and not self._is_whole(pieces):
            return Refusal(
                f"begin the code with the first line of {unit.name}, and write all of it"
            )
        if len(pieces) == 1 and isinstance(pieces[0].node, ast.Expr) and self._is_constant(unit):
            pieces = _pieces(text := f"{unit.name} = {code}", syntax_tree(text))
        self._place(pieces, adds)
        return self._text()

    def _place(self, pieces: Sequence[_Piece], adds: bool) -> None:
        unit, new = self.unit, list[_Piece]()
        unnamed = unit.name.startswith(("line ", "lines ")) and not adds
        for piece in pieces:
            known = None if unnamed else self._known(piece.node)
            if isinstance(piece.node, _IMPORT):
                self._import(piece)
            elif known is not None:
                self._replaced[known.name] = piece.lines
            elif not _is_text(piece.node):  # a lone string is the file's docstring, which stays
                new.append(piece)
        if unnamed and new:
            self._replaced[unit.name] = [line for piece in new for line in piece.lines]
            return
        for piece in new:
            if self._comes_early(piece.node):
                self._add_early(piece)
            else:
                self._add(unit, piece.lines)

    def _comes_early(self, node: ast.stmt) -> bool:
        """Return whether code belongs before all functions, so that their headers can use it."""
        if self.unit.owner and not isinstance(node, _FUNCTION):
            return True
        return bool(_constant(node)) and not self._uses_functions(node)

    def _is_whole(self, pieces: Sequence[_Piece]) -> bool:
        """Return whether code for a function is more than its body alone."""
        nodes = [piece.node for piece in pieces]
        return any(isinstance(node, _DEFINITION) for node in nodes) or all(
            isinstance(node, _IMPORT) or self._known(node) for node in nodes
        )

    def _unwrapped(self, pieces: list[_Piece]) -> list[_Piece]:
        """Return the pieces, with a class that shows only some of its methods replaced by these."""
        owner = self.unit.owner
        shown = [p for p in pieces if isinstance(p.node, ast.ClassDef) and p.node.name == owner]
        if not owner or len(shown) != 1:
            return pieces
        node = shown[0].node
        assert isinstance(node, ast.ClassDef)
        methods = {f"{owner}.{m.name}" for m in node.body if isinstance(m, _FUNCTION)}
        known = {name for name, unit in self.units.items() if unit.owner == owner}
        if self.unit.name not in methods or methods >= known:
            return pieces
        text = textwrap.dedent("\n".join(shown[0].lines[_first(node.body[0]) - _end(node) - 1 :]))
        inner = _tree(text)
        rest = [piece for piece in pieces if piece is not shown[0]]
        return pieces if inner is None else [*rest, *_pieces(text, inner)]

    def _known(self, node: ast.stmt) -> EditUnit | None:
        name = _name(node)
        method = f"{self.unit.owner}.{name}" if self.unit.owner else name
        return self.units.get(method or "") or self.units.get(name or "")

    def _is_constant(self, unit: EditUnit) -> bool:
        node = _node(self.old, unit)
        return node is not None and bool(_constant(node))

    def _uses_functions(self, node: ast.stmt) -> bool:
        used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        functions = {n.name for n in _body(self.old) if isinstance(n, _DEFINITION)}
        return bool(used & functions)

    def _import(self, piece: _Piece) -> None:
        there = {ast.dump(node) for node in _body(self.old)}
        if ast.dump(piece.node) in there:
            return
        where = self.units[IMPORTS]
        future = isinstance(piece.node, ast.ImportFrom) and piece.node.module == "__future__"
        self._inserted.append((where.first if future else where.last + 1, piece.lines))

    def _add_early(self, piece: _Piece) -> None:
        where = self.units.get(SETTINGS) or self.units[IMPORTS]
        gap = ("",) if where.name == IMPORTS or isinstance(piece.node, _DEFINITION) else ()
        self._inserted.append((where.last + 1, (*gap, *piece.lines)))

    def _add(self, unit: EditUnit, lines: Sequence[str]) -> None:
        gap = ("",) if unit.owner else ("", "")
        self._inserted.append((unit.last + 1, (*gap, *_indented(lines, unit.indent))))

    def _text(self) -> str:
        lines, changes = self.old.split("\n"), list[tuple[int, int, list[str]]]()
        for name, new in self._replaced.items():
            unit = self.units[name]
            if unit.owner not in self._replaced:
                changes.append((unit.first - 1, unit.last, _indented(new, unit.indent)))
        changes += [(before - 1, before - 1, list(new)) for before, new in reversed(self._inserted)]
        # From the end, so that lines keep their numbers.
        for start, end, new in sorted(changes, key=lambda change: change[:2], reverse=True):
            lines[start:end] = new
        return "\n".join(lines)


def _pieces(code: str, tree: ast.Module) -> list[_Piece]:
    lines, start, found = code.split("\n"), 0, list[_Piece]()
    for node in tree.body:
        end = _end(node)
        mine = lines[start:end]
        while mine and (not mine[0].strip() or matching.is_marker(mine[0])):
            mine.pop(0)
        found.append(_Piece(node, tuple(mine)))
        start = end
    return found


def _definitions(code: str, tree: ast.Module) -> list[list[str]]:
    lines = code.split("\n")
    return [lines[_first(n) - 1 : _end(n)] for n in tree.body if isinstance(n, _DEFINITION)]


def _name(node: ast.stmt) -> str | None:
    """Return the name that a module's statement binds, or MAIN; None if there is none."""
    if isinstance(node, _DEFINITION):
        return node.name
    if isinstance(node, ast.If) and "__name__" in ast.dump(node.test):
        return MAIN
    return _constant(node) or None


def _constant(node: ast.stmt) -> str:
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names[0] if len(names) == len(targets) == 1 else ""


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _node(text: str, unit: EditUnit) -> ast.stmt | None:
    for node in _body(text):
        inside: list[ast.stmt] = node.body if isinstance(node, ast.ClassDef) else []
        for part in (node, *inside):
            if _first(part) == unit.first and _end(part) == unit.last:
                return part
    return None


def _body(text: str) -> Sequence[ast.stmt]:
    tree = _tree(text)
    return () if tree is None else tree.body


def _tree(text: str) -> ast.Module | None:
    try:
        return syntax_tree(text)
    except UNREADABLE:
        return None


def _first(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, _DEFINITION) else ()
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _indent(text: str, node: ast.stmt) -> str:
    line = text.split("\n")[node.lineno - 1]
    return line[: len(line) - len(line.lstrip())]  # tabs too


def _indented(lines: Sequence[str], indent: str) -> list[str]:
    """Return lines indented further, except those within strings, which would change."""
    inside = _within_strings("\n".join(lines)) if indent else frozenset()
    return [
        f"{indent}{line}" if line.strip() and number not in inside else line
        for number, line in enumerate(lines, 1)
    ]


def _within_strings(code: str) -> frozenset[int]:
    """Return the lines of strings after their first; those of docstrings may be moved."""
    tree = _tree(code) or ast.Module([], [])
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return frozenset(
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        if id(node) not in texts
        for line in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
    )
