"""Parts: a function or constant of a file that a model writes anew, after a given beginning.

Small models break code that they write into JSON strings, and change signatures that other code
calls. So a grammar makes them name the parts that change, and they write each part in a fence that
begins with what stays: the line with the function's name and parameters. From a reply, the part
itself and the new definitions that it uses are taken. The rest of the file, which small models
often invent, is not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from hpcscientist.authoring.edits.units import IMPORTS, MAIN, SETTINGS, EditUnit
from hpcscientist.files.python_source import UNREADABLE, syntax_tree
from hpcscientist.models.answers import strip_reasoning

FENCE = "```python\n"
_DEFINES = re.compile(r"(?:async def|def|class) +(\w+)|(\w+)(?: *:[^=\n]+)? *=(?!=)")
_BLOCK = re.compile(r"^ {0,3}`{3,}[^\n`]*\n(?P<code>.*?)(?:^ {0,3}`{3,}|\Z)", re.M | re.S)
_IMPORTS = ("import ", "from ")
_METHOD = re.compile(r"(?:@.*\n)*(?:async )?def +\w+\( *(?:self|cls)\b")


def is_writable(unit: EditUnit) -> bool:
    """Return whether a unit can be written as a part: it has a name of its own."""
    return unit.name not in (IMPORTS, SETTINGS, MAIN) and " " not in unit.name


def outermost(label: str) -> str:
    """Return the label of a method's class; for other labels, the label itself."""
    file, _, name = label.rpartition(": ")
    return f"{file}: {name.partition('.')[0]}"


def head(unit: EditUnit, files: Mapping[str, str]) -> str:
    """Return the beginning of a unit that stays: a function's header, or a constant's name.

    A function's docstring is left out, because it may say that the function does nothing.
    """
    text = unit.text(files)
    try:
        (node, *_) = syntax_tree(text).body
    except (*UNREADABLE, ValueError):  # a string in it is indented less than its first line
        return text.partition("\n")[0] + "\n"
    stays: ast.AST | None = getattr(node, "value", None)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        stays = node.body[0]
        decorators: list[ast.expr] = getattr(stays, "decorator_list", [])
        stays = decorators[0] if decorators else stays
    if not isinstance(stays, ast.expr | ast.stmt):
        return text
    lines = text.encode().splitlines(keepends=True)
    before = lines[stays.lineno - 1][: stays.col_offset].decode()
    whole = b"".join(lines[: stays.lineno - 1]).decode()
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return (whole + before).rstrip(" (\n")  # a blank would be a token of its own
    return whole + before.rstrip(" \t@")


def source(
    reply: str, begun: str, name: str, known: Collection[str]
) -> tuple[str, tuple[str, ...]]:
    """Return a part's new code, and the new definitions for its file that it uses.

    `begun` is the beginning that the reply continues; `known` are the names that the file has.
    """
    answer = strip_reasoning(reply)
    answer = reply if answer == reply.strip() else answer  # keeps its first line's indentation
    block = _BLOCK.search(answer)
    if block is not None and _DEFINES.match(block["code"].lstrip()):
        code = block["code"]  # the server does not continue a given beginning
    else:
        code = begun + re.split(r"^ {0,3}`{3,}", answer, maxsplit=1, flags=re.M)[0]
    chunks = list(_chunks(code))
    own = next((c for c in chunks if _name(c) == name.rpartition(".")[2]), code)
    own = _readable(own) if own.startswith(f"{name} ") or own.startswith(f"{name}=") else own
    kept, wanted = list[str](), own
    rest = [c for c in chunks if c is not own and _name(c) not in known and _is_readable(c)]
    while more := [c for c in rest if _is_wanted(c, wanted)]:
        kept += more
        wanted = "\n".join([own, *kept])
        rest = [chunk for chunk in rest if chunk not in more]
    # New methods go with a method into its class.
    methods = [chunk for chunk in kept if "." in name and _METHOD.match(chunk)]
    beside = tuple(_lines(chunk) for chunk in kept if chunk not in methods)
    return "\n".join(map(_lines, [own, *methods])), beside


def _lines(code: str) -> str:
    return code.strip("\n") + "\n"


def _readable(constant: str) -> str:
    """Return the fewest first lines of a constant that parse by themselves."""
    lines = constant.split("\n")
    for count in range(1, len(lines) + 1):
        if _is_readable("\n".join(lines[:count])):
            return "\n".join(lines[:count])
    return constant


def _chunks(code: str) -> Iterator[str]:
    """Yield the statements of a file by their indentation; the code need not parse."""
    chunk: list[str] = []
    for line in code.split("\n"):
        begins = line[:1] not in ("", " ", "\t", "#", ")", "]", "}", "@", '"', "'")
        if (begins or line.startswith("@")) and any(
            text[:1] not in ("", "@", "#") for text in chunk
        ):
            yield "\n".join(chunk).rstrip()
            chunk = []
        chunk.append(line)
    if chunk:
        yield "\n".join(chunk).rstrip()


def _name(chunk: str) -> str:
    lines = (line for line in chunk.split("\n") if line[:1] not in ("", "@", "#"))
    found = _DEFINES.match(next(lines, ""))
    return (found[1] or found[2]) if found else ""


def _is_wanted(chunk: str, code: str) -> bool:
    if chunk.startswith(_IMPORTS):
        bound = re.findall(r"\w+", chunk.rpartition(" import ")[2].removeprefix("import "))
        return any(re.search(rf"\b{name}\b", code) for name in bound)
    name = _name(chunk)
    return bool(name) and re.search(rf"\b{re.escape(name)}\b", code) is not None


def _is_readable(code: str) -> bool:
    try:
        return bool(syntax_tree(code).body)
    except UNREADABLE:
        return False
