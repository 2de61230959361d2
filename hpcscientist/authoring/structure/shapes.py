"""Shapes and sizes as far as the text tells: arguments of layers, arrays and reshapes.

Each is shown as it is written, with names replaced by their values where the text fixes them:
`Linear(784, 10)`, `zeros((3, 4))`, `reshape(-1, 28)`. What is not fixed stays a name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from hpcscientist.authoring.structure.calls import CallGraph
from hpcscientist.authoring.structure.code.objects import last_name
from hpcscientist.authoring.structure.code.records import Shape
from hpcscientist.authoring.structure.code.scopes import Path
from hpcscientist.authoring.structure.code.statements import end_of, header_parts
from hpcscientist.authoring.structure.code.units import Unit
from hpcscientist.authoring.structure.values import Unknown, Values
from hpcscientist.files.text import one_line

_TEXT = 120
_ITEMS = 16
_LAYERS = re.compile(
    r"(Lazy)?(Linear|Bilinear|Conv(Transpose)?[123]d|BatchNorm[123]d|Embedding(Bag)?)|Dense|"
    r"(Layer|RMS|Group|Instance)Norm|RNN|(LSTM|GRU|RNN)(Cell)?|MultiheadAttention|"
    r"Transformer(En|De)coderLayer|(Un)?[Ff]latten|(Adaptive)?(Avg|Max)Pool[123]d|Upsample"
)
_ARRAYS = re.compile(r"(new_)?(zeros|ones|empty|full)|rand|randn|eye|broadcast_to|tile")
_SIZED = re.compile(  # has arguments of other kinds, too, so that only sizes tell
    r"randint|integers|arange|linspace|(standard_)?normal|uniform|random|choice|repeat|unsqueeze|"
    r"squeeze|expand_dims|stack|concatenate|cat|hstack|vstack|chunk|narrow|movedim|unfold"
)
_FORMS = re.compile(r"reshape|view|permute|transpose|swapaxes|moveaxis|expand")
_LITERALS = {"array", "tensor", "asarray"}
_NO_SIZES = {"dtype", "device", "requires_grad", "bias", "generator", "inplace", "copy"}


class Shapes:
    """Reads shapes off the statements of definitions."""

    def __init__(self, graph: CallGraph) -> None:
        self._graph, self._values = graph, Values(graph)

    def of(self, unit: Unit, first: int = 1, last: int = 10**9) -> Iterator[Shape]:
        """Yield what a unit's own statements between two lines tell, as they stand."""
        found = []
        for statement, path in self._graph.project.scope(unit).statements:
            for part in header_parts(statement):
                named = _target(statement)
                for node in ast.walk(part):
                    if isinstance(node, ast.Call) and first <= node.lineno <= last:
                        found.append((node.lineno, end_of(node), node, named, path))
        for line, _, node, named, path in sorted(found, key=lambda f: f[:2]):
            if text := self._text(node, unit, path):
                whole = named is not None and named[1] is node
                name = named[0] if named is not None and whole else last_name(node.func)
                yield Shape(name=name, file=unit.file, line=line, shape=one_line(text, _TEXT))

    def _text(self, node: ast.Call, unit: Unit, path: Path) -> str:
        """Return a call with its values; "" if it says nothing of shapes."""
        name = last_name(node.func)
        refs = self._graph.inference.infer(node.func, unit, path)
        if any(ref.kind == "class" for ref in refs):
            return self._shown(name, node, unit, path)
        if refs:
            return ""
        if name in _LITERALS and node.args:
            shape = _nested(node.args[0])
            return f"{name} of shape {shape}" if shape else ""
        if _FORMS.fullmatch(name) or _LAYERS.fullmatch(name) or _ARRAYS.fullmatch(name):
            return self._shown(name, node, unit, path, sizes=False)
        return self._shown(name, node, unit, path) if _SIZED.fullmatch(name) else ""

    def _shown(self, name: str, node: ast.Call, unit: Unit, path: Path, sizes: bool = True) -> str:
        """Return a call with its values; "" if `sizes` are wanted and it has none."""
        shown, known = [], not sizes
        arguments: list[tuple[str | None, ast.expr]] = [(None, a) for a in node.args]
        arguments += [(k.arg, k.value) for k in node.keywords if k.arg not in _NO_SIZES]
        for label, argument in arguments:
            text, size = self._argument(argument, unit, path)
            known = known or size or label == "size"
            shown.append(f"{label}={text}" if label else text)
        return f"{name}({', '.join(shown)})" if known and shown else ""

    def _argument(self, node: ast.expr, unit: Unit, path: Path) -> tuple[str, bool]:
        """Return an argument as text, and whether it is a size, or a tuple with one."""
        if isinstance(node, ast.Tuple | ast.List) and 0 < len(node.elts) <= _ITEMS:
            parts = [self._argument(item, unit, path) for item in node.elts]
            inner = ", ".join(text for text, _ in parts)
            if isinstance(node, ast.List):
                return f"[{inner}]", any(size for _, size in parts)
            comma = "," if len(parts) == 1 else ""
            return f"({inner}{comma})", any(size for _, size in parts)
        try:
            value = self._values.fold(node, unit, path)
        except Unknown:
            return _source(node, unit), False
        sizes = value if isinstance(value, tuple) else (value,)
        number = any(isinstance(size, int) and not isinstance(size, bool) for size in sizes)
        return one_line(repr(value), _TEXT), number


def _target(statement: ast.AST) -> tuple[str, ast.expr] | None:
    """Return the name that a statement gives its value, and that value."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target, value = statement.target, statement.value
    else:
        return None
    if isinstance(target, ast.Name):
        return target.id, value
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        return f"{target.value.id}.{target.attr}", value
    return None


def _nested(node: ast.expr) -> tuple[int, ...]:
    """Return the shape of written lists; () if it is none or they differ in length."""
    shape: list[int] = []
    level: list[ast.expr] = [node]
    while level and all(isinstance(item, ast.List | ast.Tuple) for item in level):
        items = [item.elts for item in level if isinstance(item, ast.List | ast.Tuple)]
        if len({len(each) for each in items}) != 1:
            return ()
        shape.append(len(items[0]))
        level = [each for elts in items for each in elts]
    if any(isinstance(item, ast.List | ast.Tuple | ast.Starred | ast.ListComp) for item in level):
        return ()
    return tuple(shape)


def _source(node: ast.expr, unit: Unit) -> str:
    """Return an expression as it is written, without what follows its first line."""
    if node.lineno in unit.source.aside or node.lineno > len(unit.source.lines):
        return "…"
    line = unit.source.lines[node.lineno - 1].encode("utf-8", "replace")
    last = node.end_col_offset if node.end_lineno == node.lineno else None
    text = line[node.col_offset : last].decode("utf-8", "replace").strip()
    return text if node.end_lineno == node.lineno else f"{text} …"
