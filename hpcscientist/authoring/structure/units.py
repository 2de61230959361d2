"""Definitions as scopes: which exist, which lines each holds, and which one holds a line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hpcscientist.authoring.structure.records import Kind
from hpcscientist.files.python_source import syntax_tree
from hpcscientist.files.text import one_line

# Parsing files that may have syntax errors: lines that cause one are put aside, one by one.
#
# A syntax error hides a whole file from `ast`. So the line that the error names is replaced by one
# of the same indentation that does nothing (a header keeps its name), until the rest parses. Every
# other line keeps its number. Nothing is imported or executed.

MAX_SOURCE = 400_000  # characters; longer files are generated, or data
_TRIES = 25

_NEWLINE = re.compile(r"\r\n|\r|\n")
HEADER = re.compile(r"^([ \t]*)(async[ \t]+def|def|class)[ \t]+([^\W\d]\w*)")
_BRANCH = re.compile(r"^(elif|else|except|finally|case)\b")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file's lines and its tree; `aside` are the lines that the tree lacks.

    `tree` is None if too many lines fail to parse. `blockless` maps each header whose block is
    missing to the line where the block was expected.
    """

    file: str
    lines: tuple[str, ...]
    tree: ast.Module | None
    aside: frozenset[int]
    blockless: Mapping[int, int] = field(default_factory=dict)

    def line(self, number: int) -> str:
        """Return a line without its indentation; "" beyond the file."""
        return self.lines[number - 1].strip() if 1 <= number <= len(self.lines) else ""


def parse(file: str, text: str) -> SourceFile:
    """Return a file, parsed as far as possible; never raises."""
    lines = tuple(_NEWLINE.split(text))
    if len(text) > MAX_SOURCE:
        return SourceFile(file, lines, None, frozenset())
    readable = text.removeprefix("\ufeff").replace("\0", " ").encode("utf-8", "replace").decode()
    tried = _NEWLINE.split(readable)
    aside: dict[int, int] = {}  # line -> how often it was replaced
    blockless: dict[int, int] = {}
    for _ in range(_TRIES):
        found = _tree(tried)
        if not isinstance(found, SyntaxError):
            return SourceFile(file, lines, found, frozenset(aside), blockless)
        if header := _without_block(found, len(tried)):
            blockless[header] = max(header, min(found.lineno or header, len(lines)))
            _complete(tried, header)
            aside[blockless[header]] = aside.get(blockless[header], 0)
        else:
            _put_aside(tried, found, aside)
    return SourceFile(file, lines, None, frozenset(aside))


def _tree(lines: list[str]) -> ast.Module | SyntaxError | None:
    try:
        return syntax_tree("\n".join(lines))
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return None


def _without_block(error: SyntaxError, lines: int) -> int:
    """Return the header whose block is missing; 0 for other errors."""
    found = re.search(r"expected an indented block after .* on line ([0-9]+)", str(error))
    return min(int(found[1]), lines) if found else 0


def _complete(lines: list[str], number: int) -> None:
    """Give a header a block; if the header goes on in the next line, keep only its name."""
    line = lines[number - 1]
    whole = line.rstrip().endswith(":") and line.count("(") == line.count(")")
    lines[number - 1] = f"{line.rstrip()} pass" if whole else f"{_header(line, 'if True:')} pass"


def _put_aside(lines: list[str], error: SyntaxError, aside: dict[int, int]) -> None:
    """Replace the line that an error names."""
    number = min(max(error.lineno or 1, 1), len(lines))
    if aside.get(number, 0) == 0:
        lines[number - 1] = _without_content(lines, number)
    else:
        lines[number - 1] = _last_filled(lines, number, aside)
    aside[number] = aside.get(number, 0) + 1


def _without_content(lines: list[str], number: int) -> str:
    """Return a line that opens a block if this one does, and does nothing otherwise."""
    line = lines[number - 1]
    following = next((text for text in lines[number:] if text.strip()), "")
    if indentation(following) > indentation(line):
        return _header(line, "if True:")
    whole = _header(line, "")
    return f"{whole} pass" if whole.strip() else line[: indentation(line)] + "pass"


def _header(line: str, otherwise: str) -> str:
    """Return a header of the same kind and name that parses; `otherwise` if the line is none."""
    indent = line[: indentation(line)]
    if found := HEADER.match(line):
        return f"{indent}class {found[3]}:" if found[2] == "class" else f"{indent}def {found[3]}():"
    if found := _BRANCH.match(line.strip()):
        spare = {"elif": "elif True:", "except": "except BaseException:", "case": "case None:"}
        return indent + spare.get(found[1], f"{found[1]}:")
    return indent + otherwise


def _last_filled(lines: list[str], number: int, aside: dict[int, int]) -> str:
    """Return "" for a line that still causes an error.

    An error may be reported after its cause, at an empty line; then empty the filled line before.
    """
    if not lines[number - 1].strip():
        for before in range(number - 1, 0, -1):
            if lines[before - 1].strip():
                lines[before - 1] = ""
                aside[before] = aside.get(before, 0) + 1
                break
    return ""


def indentation(line: str) -> int:
    """Return how many characters a line is indented by."""
    return len(line) - len(line.lstrip(" \t\f"))


MODULE = "<module>"
_SIGNATURE = 200

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode = FunctionNode | ast.ClassDef | ast.Module


@dataclass(eq=False, slots=True)
class Unit:
    """A module, class or function as a scope; `node` is None if the file does not parse."""

    source: SourceFile
    name: str
    kind: Kind
    node: ScopeNode | None
    first: int
    last: int
    body: int  # first line of its block
    parent: Unit | None = None
    children: list[Unit] = field(default_factory=list)

    @property
    def file(self) -> str:
        """The file that holds it."""
        return self.source.file

    @property
    def short(self) -> str:
        """Its name without those of the units around it."""
        return self.name.rpartition(".")[2]

    @property
    def owner(self) -> Unit | None:
        """The class that a method belongs to."""
        return self.parent if self.kind == "method" else None

    @property
    def key(self) -> tuple[str, int, str]:
        """The sort key of units: file, line, name."""
        return self.file, self.first, self.name

    def walk(self) -> Iterator[Unit]:
        """Yield the unit and all units within it, in file order."""
        stack = [self]
        while stack:
            unit = stack.pop()
            yield unit
            stack.extend(reversed(unit.children))

    def module(self) -> Unit:
        """Return the module around it."""
        unit = self
        while unit.parent is not None:
            unit = unit.parent
        return unit

    def header(self) -> str:
        """Return its header on one line."""
        if self.kind == "module":
            return ""
        start = self.first if self.node is None else self.node.lineno  # type: ignore[union-attr]
        lines = self.source.lines[start - 1 : max(start, self.body - 1)]
        text = " ".join(line.strip() for line in lines)
        return one_line(text, _SIGNATURE)


def units(source: SourceFile) -> Unit:
    """Return a file's module, with every definition in it."""
    whole = max(len(source.lines), 1)
    module = Unit(source, MODULE, "module", source.tree, 1, whole, 1)
    if source.tree is None:
        _by_text(module)
        return module
    stack: list[tuple[Unit, ast.AST]] = [(module, source.tree)]
    while stack:
        unit, node = stack.pop()
        inner: list[tuple[Unit, ast.AST]] = []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FunctionNode | ast.ClassDef):
                inner.append((_child(unit, child), child))
            elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                inner.append((unit, child))
        stack.extend(reversed(inner))
    for each in module.walk():
        each.children.sort(key=lambda u: u.first)
        if source.aside and each.kind != "module":
            _extend(each)
    return module


def _child(parent: Unit, node: FunctionNode | ast.ClassDef) -> Unit:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    last = node.end_lineno or node.lineno
    body = max(node.body[0].lineno, node.lineno)
    unit = Unit(
        parent.source, _name(parent, node.name), _kind(parent, node), node, first, last, body
    )
    unit.parent = parent
    parent.children.append(unit)
    return unit


def _kind(parent: Unit, node: FunctionNode | ast.ClassDef) -> Kind:
    if isinstance(node, ast.ClassDef):
        return "class"
    return "method" if parent.kind == "class" else "function"


def _name(parent: Unit, name: str) -> str:
    return name if parent.kind == "module" else f"{parent.name}.{name}"


def _extend(unit: Unit) -> None:
    """Extend a definition in a file with syntax errors to all lines indented below it.

    If its block is missing, the line found instead belongs to it too.
    """
    source, header = unit.source, int(getattr(unit.node, "lineno", unit.first))
    indent = indentation(source.lines[header - 1])
    for number in range(unit.last + 1, len(source.lines) + 1):
        line = source.lines[number - 1]
        if line.strip() and indentation(line) <= indent:
            break
        if line.strip():
            unit.last = number
    unit.last = max(unit.last, source.blockless.get(header, 0))


def _by_text(module: Unit) -> None:
    """Find definitions by their headers; each ends before the next line not indented deeper."""
    lines = module.source.lines
    open_units: list[tuple[int, Unit]] = []
    last = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        indent = indentation(line)
        while open_units and indent <= open_units[-1][0] and not line.lstrip().startswith(")"):
            open_units.pop()[1].last = max(last, 1)
        if header := HEADER.match(line):
            parent = open_units[-1][1] if open_units else module
            kind: Kind = "class" if header[2] == "class" else "function"
            if kind == "function" and parent.kind == "class":
                kind = "method"
            name = _name(parent, header[3])
            unit = Unit(module.source, name, kind, None, number, number, number + 1, parent)
            parent.children.append(unit)
            open_units.append((indent, unit))
        last = number
    for _, unit in open_units:
        unit.last = max(last, unit.first)


def enclosing(module: Unit, line: int, function: str = "") -> Unit:
    """Return the innermost unit that runs a line.

    The scope around a header runs it, unless `function` says that a call was about to begin or
    end there.
    """
    around = [unit for unit in module.walk() if unit.first <= line <= unit.last]
    for unit in reversed(around):
        if unit.short == function and unit.kind != "module":
            return unit
    for unit in reversed(around):
        if unit.kind == "module" or line >= unit.body:
            return unit
    return module


# Statements: the lines that they span, what they compute themselves, and their blocks.

Place = tuple[int, int]  # line, column in bytes


def span(node: ast.AST) -> tuple[int, int]:
    """Return first and last line of a statement, handler or case."""
    if isinstance(node, ast.match_case):
        last = node.body[-1]
        return node.pattern.lineno, last.end_lineno or last.lineno
    decorators = getattr(node, "decorator_list", [])
    start = min([getattr(node, "lineno", 1), *(each.lineno for each in decorators)])
    return start, max(start, end_of(node)[0])


def start_of(node: ast.expr | ast.stmt | ast.arg | ast.ExceptHandler) -> Place:
    """Return where a node begins."""
    return node.lineno, node.col_offset


def end_of(node: ast.AST) -> Place:
    """Return where a node ends."""
    line, column = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
    return (line or 1, column or 0)


def header_parts(node: ast.AST) -> list[ast.AST]:
    """Return the parts that a statement computes itself, without its blocks."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    if isinstance(node, FunctionNode):
        return _function_parts(node)
    if isinstance(node, ast.With | ast.AsyncWith):
        given = [part for item in node.items for part in (item.context_expr, item.optional_vars)]
        return [part for part in given if part is not None]
    if not any(isinstance(getattr(node, name, None), list) for name in ("body", "cases")):
        return [node]
    names = ("test", "target", "iter", "type", "subject", "pattern", "guard")
    parts = (getattr(node, name, None) for name in names)
    return [part for part in parts if isinstance(part, ast.AST)]


def _function_parts(node: FunctionNode) -> list[ast.AST]:
    given = node.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    notes = [argument.annotation for argument in every if argument is not None]
    values = [*node.decorator_list, *given.defaults, *given.kw_defaults]
    return [part for part in (*values, *notes, node.returns) if part is not None]


def blocks(node: ast.AST) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield the blocks of a compound statement, each with its branch's name.

    Only one of the branches `if` and `else` runs, one of all cases, and one of all handlers.
    """
    names = {"body": "if", "orelse": "else"} if isinstance(node, ast.If) else {}
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block:
            yield names.get(name, name), block
    for number, handler in enumerate(getattr(node, "handlers", ())):
        yield f"handler {number}", [handler]
    for number, case in enumerate(getattr(node, "cases", ())):
        yield f"case {number}", [case]


def in_order(part: ast.AST) -> Iterator[tuple[ast.AST, Place | None]]:
    """Yield a node's parts, inner ones first, each with the place of an f-string around it.

    Before Python 3.12, nodes inside an f-string may have wrong places.
    """
    stack: list[tuple[ast.AST, Place | None, bool]] = [(part, None, False)]
    while stack:
        node, place, entered = stack.pop()
        if entered:
            yield node, place
            continue
        inner = place
        if isinstance(node, ast.JoinedStr) and place is None:
            inner = start_of(node)
        stack.append((node, place, True))
        children = list(ast.iter_child_nodes(node))
        stack.extend((child, inner, False) for child in reversed(children))


def touching(parts: list[ast.AST], line: int) -> list[ast.AST]:
    """Return the outermost expressions that lie within one line of a long statement."""
    found: list[ast.AST] = []
    queue = list(parts)
    while queue:
        node = queue.pop(0)
        first, last = span(node) if hasattr(node, "lineno") else (0, 10**9)
        if first == last == line and isinstance(node, ast.expr):
            found.append(node)
        elif first <= line <= last:
            queue.extend(ast.iter_child_nodes(node))
    return found
