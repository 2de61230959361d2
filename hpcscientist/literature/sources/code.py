"""Reads Python code as a list of its functions, methods and classes, without executing it.

`ast` parses files, and each cell of a notebook separately. Files of other languages are only
counted. Links are not followed, and clones inside a repository are left out.
"""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.files.python_source import syntax_tree
from hpcscientist.literature.sources import lines, text
from hpcscientist.literature.sources.base import Item, Trouble, trouble
from hpcscientist.literature.sources.records import jsonl
from hpcscientist.records.literature import Symbol

# Folders: their files and folders, in order, and whether they are code repositories.

PYTHON = (".py", ".ipynb")
OTHER_LANGUAGES = {
    ".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++", ".cxx": "C++", ".hpp": "C++", ".cu": "CUDA",
    ".cuh": "CUDA", ".f90": "Fortran", ".go": "Go", ".java": "Java", ".jl": "Julia",
    ".js": "JavaScript", ".lua": "Lua", ".m": "MATLAB", ".pyx": "Cython", ".r": "R",
    ".rs": "Rust", ".scala": "Scala", ".swift": "Swift", ".ts": "TypeScript",
}  # fmt: skip
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_NOT_OURS = frozenset(
    {"__pycache__", "__MACOSX", "node_modules", "site-packages", "lost+found", "CVS"}
)
_SEARCHED = 20_000
_SYSTEM = frozenset({"/proc", "/sys", "/dev"})  # some of their files have no end


@dataclass(frozen=True, slots=True)
class Listing:
    """The names of a folder's regular files and folders, in order, hidden ones left out.

    They are names because paths take five times the memory, which matters for a million of them.
    `odd` counts broken links, links to a folder above, pipes, sockets and devices; these are never
    opened.
    """

    folder: Path
    files: tuple[str, ...]
    folders: tuple[str, ...]
    odd: int
    cloned: bool

    @property
    def project(self) -> bool:
        """Whether this is the root of a code repository, by files that only a root has."""
        return self.cloned or any(f in _PROJECT_FILES for f in self.files)


def listing(folder: Path, follow: bool = True) -> Listing:
    """Return what is in a folder, without links if `follow` is false. Raises OSError."""
    places: dict[str, list[str]] = {"file": [], "folder": [], "odd": []}
    cloned = False
    with os.scandir(folder) as found:
        for entry in found:
            cloned = cloned or entry.name == ".git"
            if entry.name.startswith(".") or entry.name in _NOT_OURS:
                continue
            if follow or not entry.is_symlink():
                places[_kind(entry)].append(entry.name)
    files, folders = tuple(sorted(places["file"])), tuple(sorted(places["folder"]))
    return Listing(folder, files, folders, len(places["odd"]), cloned)


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        if entry.is_dir():
            return "odd" if _leads_away(entry) else "folder"
        return "file" if entry.is_file() else "odd"
    except OSError:  # a link in a circle
        return "odd"


def _leads_away(entry: os.DirEntry[str]) -> bool:
    """Return whether a folder is a link to a folder above it, or is /proc, /sys or /dev.

    Following a link to `/` would read the whole machine.
    """
    if not entry.is_symlink():
        return entry.path in _SYSTEM
    there = os.path.realpath(entry.path)
    here = os.path.realpath(os.path.dirname(entry.path))  # noqa: PTH120 (speed)
    return there in _SYSTEM or os.path.commonpath((there, here)) == there


def code_files(root: Path) -> Iterator[Path | OSError]:
    """Yield the files of a repository in order, and errors; links and inner clones are left out."""
    pending = [root]
    while pending:
        folder = pending.pop()
        try:
            found = listing(folder, follow=False)
        except OSError as error:
            yield error
            continue
        if (found.cloned and folder != root) or "pyvenv.cfg" in found.files:
            continue
        yield from (folder / name for name in found.files)
        pending += [folder / name for name in reversed(found.folders)]


def has_code(root: Path) -> bool:
    """Return whether source code of any language is among the first files of a folder."""
    for number, path in enumerate(code_files(root)):
        if number >= _SEARCHED:
            return False
        if isinstance(path, Path) and path.suffix.lower() in (*PYTHON, *OTHER_LANGUAGES):
            return True
    return False


_FILE_BYTES = 2 * 2**20
_CODE_LINES = 200
_CODE_CHARACTERS = 10_000
_DOCSTRING = 4_000
_SIGNATURE = 500
_DEEPEST = 20

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.ClassDef
_BLOCKS = ast.stmt | ast.excepthandler | ast.match_case


def read(path: Path, origin: str) -> Iterator[Item]:
    """Yield the symbols of a repository, or of one file. `origin` is the repository's name.

    Raises OSError if a single file was given and cannot be read.
    """
    if not path.is_dir():
        yield from _file(path, origin, text.shown(Path(path.name)))
        return
    others: Counter[str] = Counter()
    for file in code_files(path):
        if isinstance(file, OSError):
            yield trouble(origin, f"a folder cannot be read: {file}")
            continue
        suffix = file.suffix.lower()
        if suffix in PYTHON:
            name = text.shown(file.relative_to(path))
            try:
                yield from _file(file, origin, name)
            except OSError as error:
                yield trouble(f"{origin}/{name}", f"cannot be read: {error.strerror or error}")
        elif suffix in OTHER_LANGUAGES:
            others[OTHER_LANGUAGES[suffix]] += 1
    if others:
        told = ", ".join(f"{count} {language}" for language, count in sorted(others.items()))
        yield trouble(origin, f"files whose symbols are not indexed, only Python's are: {told}")


def _file(path: Path, repository: str, name: str) -> Iterator[Item]:
    limit = lines.LINE_BYTES if path.suffix.lower() == ".ipynb" else _FILE_BYTES
    source, _ = lines.read_text(path, limit)
    if path.suffix.lower() == ".ipynb":
        yield from _notebook(source, repository, name)
    else:
        yield from symbols_of(source, repository, name)


def _notebook(source: str, repository: str, name: str) -> Iterator[Item]:
    value, problem = jsonl.parse(source)
    cells = value.get("cells") if isinstance(value, dict) else None
    if not isinstance(cells, list):
        yield trouble(f"{repository}/{name}", problem or "no notebook of version 4")
        return
    failed = 0
    for number, cell in enumerate(cells, 1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            written = cell.get("source")
            written = "".join(map(str, written)) if isinstance(written, list) else str(written)
            for item in symbols_of(_without_magic(written), repository, f"{name}#{number}"):
                failed += isinstance(item, Trouble)
                if isinstance(item, Symbol):
                    yield item
    if failed:
        yield trouble(f"{repository}/{name}", f"{failed} cells are not Python and were left out")


def _without_magic(source: str) -> str:
    return "\n".join("" if t.lstrip()[:1] in ("%", "!") else t for t in source.split("\n"))


def symbols_of(source: str, repository: str, name: str) -> Iterator[Item]:
    """Yield the symbols of a file's text in order; a Trouble if it is not Python 3."""
    source = source.replace("\r\n", "\n").replace("\r", "\n").replace("\f", " ")
    try:
        tree = syntax_tree(source)
    except SyntaxError as error:
        where = f":{error.lineno}" if error.lineno else ""
        yield trouble(f"{repository}/{name}{where}", f"no Python 3: {error.msg}")
        return
    except (RecursionError, MemoryError, ValueError) as error:
        yield trouble(
            f"{repository}/{name}", f"cannot be parsed: {str(error) or 'nested too deeply'}"
        )
        return
    written = source.split("\n")
    for owners, node in _definitions(tree):
        yield _symbol(owners, node, written, repository, name)


def _definitions(tree: ast.Module) -> Iterator[tuple[tuple[_Definition, ...], _Definition]]:
    pending: list[tuple[tuple[_Definition, ...], ast.AST]] = [((), tree)]
    while pending:
        owners, node = pending.pop()
        if isinstance(node, _Definition):
            yield owners, node
            owners = (*owners, node)
            if len(owners) > _DEEPEST:
                continue
        inner = [n for n in ast.iter_child_nodes(node) if isinstance(n, _BLOCKS)]
        pending += [(owners, n) for n in reversed(inner)]


def _symbol(
    owners: tuple[_Definition, ...],
    node: _Definition,
    written: list[str],
    repository: str,
    name: str,
) -> Symbol:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    last = max(first, node.end_lineno or first)
    in_class = bool(owners) and isinstance(owners[-1], ast.ClassDef)
    kind = "class" if isinstance(node, ast.ClassDef) else "method" if in_class else "function"
    return Symbol(
        repository=repository,
        file=name,
        first_line=first,
        last_line=last,
        name=".".join(n.name for n in (*owners, node)),
        kind=kind,  # type: ignore[arg-type]
        signature=_signature(node),
        docstring=text.paragraphs(ast.get_docstring(node) or "", _DOCSTRING),
        code=_bounded(written[first - 1 : last]),
    )


def _signature(node: _Definition) -> str:
    try:
        if isinstance(node, ast.ClassDef):
            bases = ", ".join(ast.unparse(b) for b in [*node.bases, *node.keywords])
            whole = f"class {node.name}({bases})" if bases else f"class {node.name}"
        else:
            begin = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            whole = f"{begin} {node.name}({ast.unparse(node.args)}){returns}"
    except (RecursionError, ValueError):
        whole = node.name
    return text.one_line(whole, _SIGNATURE)


def _bounded(code: list[str]) -> str:
    """Return at most 200 lines and 10,000 characters of code; a comment counts missing lines."""
    kept, size = list[str](), 0
    for line in code[:_CODE_LINES]:
        size += len(line) + 1
        if size > _CODE_CHARACTERS:
            break
        kept.append(line)
    left = len(code) - len(kept)
    return "\n".join(kept + ([f"# … {left} more lines"] if left else [])).replace("\0", "")
