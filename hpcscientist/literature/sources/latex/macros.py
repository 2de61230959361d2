"""Finds the definitions of an author's macros and expands them in texts, within limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType

ARGUMENT_CHARACTERS = 5_000  # longer or unclosed arguments are ignored
_MACROS = 5_000
_EXPANSIONS = 50_000
_DEEPEST = 10
_DEFINITION = re.compile(
    r"\\(?:(?P<new>(?:re)?newcommand|providecommand|DeclareRobustCommand)\*?\s*\{?\s*\\(?P<n>[a-zA-Z@]+)\s*\}?"
    r"|(?P<def>[gex]?def)\s*\\(?P<d>[a-zA-Z@]+)(?P<p>(?:#\d)*)(?=\{)"
    r"|(?P<more>(?:g@)?addto@macro|g?appto)\s*\{?\s*\\(?P<a>[a-zA-Z@]+)\s*\}?"
    r"|(?P<x>(?:New|Renew|Provide|Declare)(?:Expandable)?DocumentCommand)\s*\{?\s*\\(?P<c>[a-zA-Z@]+)\s*\}?"
    r"|let\s*\\(?P<l>[a-zA-Z@]+)\s*=?\s*(?P<t>\\[a-zA-Z@]+)"
    r"|DeclareMathOperator(?P<star>\*?)\s*\{?\s*\\(?P<o>[a-zA-Z@]+)\s*\}?)"
)
# Commands that we read by name: redefinitions are ignored, since they only change the layout.
_MEANT = re.compile(
    r"part|chapter|(?:sub){0,2}section|(?:sub)?paragraph|title|author|date|abstract|maketitle"
    r"|caption|begin|end|item|label|ref|cite[pt]?|bibliography|bibitem|input|include|import"
    r"|footnote|thanks|documentclass|usepackage"
)
# Commands of packages whose arguments are not all text: the body, how many there are, and the first
# one's default if it is optional.
_BUILT_IN: Mapping[str, tuple[str, int, str | None]] = {
    "texorpdfstring": ("#1", 2, None),
    "color": ("", 2, ""),
    "textcolor": ("#3", 3, ""),
    "colorbox": ("#3", 3, ""),
    "fcolorbox": ("#4", 4, ""),
    "href": ("#3", 3, ""),
    "hyperref": ("#2", 2, ""),
    "resizebox": ("#3", 3, None),
    "scalebox": ("#2", 2, None),
    "raisebox": ("#2", 2, None),
    "parbox": ("#3", 3, ""),
    "fontsize": ("", 2, None),
    "setlength": ("", 2, None),
    "addtolength": ("", 2, None),
    "setcounter": ("", 2, None),
    "addtocounter": ("", 2, None),
    "addcontentsline": ("", 3, None),
    "markboth": ("", 2, None),
    "markright": ("", 1, None),
    "rule": ("", 3, ""),
    "IfBooleanTF": ("#3", 3, None),
    "IfBooleanT": ("", 2, None),
    "IfBooleanF": ("#2", 2, None),
    "IfNoValueTF": ("#2", 3, None),
    "IfValueTF": ("#3", 3, None),
}
_HEADING = re.compile(r"\s*\\@startsection\s*\{(\w+)\}")
_COUNT = re.compile(r"\s*\[(\d)\]")
_OPTIONAL = re.compile(r"o|O\{([^{}]*)\}")
_NAME = re.compile(r"\\([a-zA-Z@]+)")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_BRACKET = re.compile(r"\\.|[{}\]]", re.DOTALL)
_SLOT = re.compile(r"#([1-9])")


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro; `default` is the value of its first argument if that one is optional.

    `starred`: a star may follow the name; it counts as an argument before the others. `built_in`: a
    star after the name, and options before each argument, say only how it looks.
    """

    body: str
    arguments: int = 0
    default: str | None = None
    starred: bool = False
    built_in: bool = False


def group(source: str, at: int, limit: int = ARGUMENT_CHARACTERS) -> tuple[str, int] | None:
    """Return the text in the braces at `at`, after optional white space, and where they end."""
    while at < len(source) and source[at].isspace():
        at += 1
    if at >= len(source) or source[at] != "{":
        return None
    depth = 0
    for found in _BRACE.finditer(source, at, at + limit):
        depth += {"{": 1, "}": -1}.get(found.group(), 0)
        if depth == 0:
            return source[at + 1 : found.start()], found.end()
    return None


def option(source: str, at: int) -> tuple[str, int] | None:
    """Return the text in the brackets at `at`, and where they end; braces inside hide brackets."""
    while at < len(source) and source[at] in " \t\n":
        at += 1
    if at >= len(source) or source[at] != "[":
        return None
    depth = 0
    for found in _BRACKET.finditer(source, at + 1, at + ARGUMENT_CHARACTERS):
        if found.group() == "]" and depth <= 0:
            return source[at + 1 : found.start()], found.end()
        depth += {"{": 1, "}": -1}.get(found.group(), 0)
    return None


def command(source: str, at: int, limit: int = ARGUMENT_CHARACTERS) -> tuple[str, int] | None:
    """Return the argument of a command whose name ends at `at`, and its end; skips an option."""
    found = option(source, at)
    return group(source, found[1] if found else at, limit)


def definitions(
    source: str, known: Mapping[str, Macro] = MappingProxyType({})
) -> tuple[dict[str, Macro], str]:
    """Return the macros that a text defines, and the text without the definitions.

    `known` are macros of earlier texts, which are returned too; a text can add to them.
    """
    macros = {name: Macro(*of, built_in=True) for name, of in _BUILT_IN.items()} | dict(known)
    kept: list[str] = []
    done = 0
    for found, name, defined, end in _definitions(source):
        macro = macros.get(found["t"][1:], defined) if found["t"] else defined
        if found["more"]:
            # What is added to a command of LaTeX's own, such as \normalsize, is layout.
            if name in macros:
                macros[name] = replace(macros[name], body=macros[name].body + macro.body)
        elif not _MEANT.fullmatch(name) and (
            found["new"] != "providecommand" or name not in macros
        ):
            heading = _HEADING.match(macro.body)
            body = rf"\{heading[1]}" if heading else macro.body.replace(r"\xspace", "")
            macros[name] = replace(macro, body=body)
        kept.append(source[done : found.start()])
        done = end
    return macros, "".join([*kept, source[done:]])


def only_definitions(source: str) -> str:
    """Return only the definitions in a text, as written."""
    return "".join(source[found.start() : end] for found, _, _, end in _definitions(source))


def _definitions(source: str) -> Iterator[tuple[re.Match[str], str, Macro, int]]:
    done = 0
    for found in islice(_DEFINITION.finditer(source), _MACROS):
        defined = _defined(source, found) if found.start() >= done else None
        if defined is not None:
            done = defined[2]
            yield found, *defined


def _defined(source: str, found: re.Match[str]) -> tuple[str, Macro, int] | None:
    if found["t"]:
        return found["l"], Macro(found["t"]), found.end()
    at, count, default = found.end(), 0, None
    if found["c"]:
        return _declared(source, found["c"], at)
    if found["n"]:
        counted = _COUNT.match(source, at)
        if counted:
            count, at = int(counted.group(1)), counted.end()
            optional = option(source, at)
            default, at = optional if optional else (None, at)
    body = group(source, at)
    if body is None:
        return None
    if found["o"]:
        text = rf"\operatorname{found['star']}{{{body[0]}}}"
        return found["o"], Macro(text), body[1]
    count = len(found["p"]) // 2 if found["d"] else count
    return found["n"] or found["d"] or found["a"], Macro(body[0], count, default), body[1]


def _declared(source: str, name: str, at: int) -> tuple[str, Macro, int] | None:
    """Return the macro of a \\NewDocumentCommand, by the letters that stand for its arguments.

    Only the first argument that is not a star can be optional.
    """
    letters = group(source, at)
    body = group(source, letters[1]) if letters else None
    if letters is None or body is None:
        return None
    kinds = re.sub(r"[+!\s]|>\{[^{}]*\}", "", letters[0])
    starred = kinds.startswith("s")
    kinds = kinds.removeprefix("s")
    first = _OPTIONAL.match(kinds)
    needed = kinds[first.end() if first else 0 :]
    count = len(needed) - len(needed.lstrip("m")) + bool(first)
    default = (first[1] or "") if first else None
    return name, Macro(body[0], count, default, starred), body[1]


class Expander:
    """Expands macros. All texts of a document share one budget."""

    def __init__(self, macros: dict[str, Macro]) -> None:
        self._macros = macros
        self._left = _EXPANSIONS
        self._room = 0

    def expand(self, source: str) -> str:
        """Return a text with the author's macros expanded; those beyond the budget stay."""
        if not self._macros:
            return source
        self._room = 4 * len(source) + 100_000
        return self._expanded(source, 0)

    def _expanded(self, source: str, depth: int) -> str:
        parts: list[str] = []
        done = 0
        for found in _NAME.finditer(source):
            macro = self._macros.get(found.group(1))
            if macro is None or found.start() < done or depth >= _DEEPEST or self._left <= 0:
                continue
            filled, end = _filled(macro, source, found.end())
            self._room -= len(filled)
            if self._room < 0:
                break
            self._left -= 1
            parts += [source[done : found.start()], self._expanded(filled, depth + 1)]
            done = end
            if parts[-1][-1:].isalpha() and source[done : done + 1].isalpha():
                parts.append(" ")
        return "".join([*parts, source[done:]])


def _filled(macro: Macro, source: str, at: int) -> tuple[str, int]:
    values: list[str] = []
    if macro.starred:
        values.append("")
    if macro.starred or macro.built_in:
        at += source[at : at + 1] == "*"
    if macro.default is not None:
        given = option(source, at)
        values.append(given[0] if given else macro.default)
        at = given[1] if given else at
    while len(values) < macro.arguments + macro.starred:
        while macro.built_in and (looks := option(source, at)):
            at = looks[1]
        found = group(source, at) or _token(source, at)
        if found is None:
            break
        values.append(found[0])
        at = found[1]
    if not macro.arguments and source[at : at + 2] == "{}":
        at += 2
    text = _SLOT.sub(
        lambda m: values[int(m.group(1)) - 1] if int(m.group(1)) <= len(values) else "", macro.body
    )
    return text, at


def _token(source: str, at: int) -> tuple[str, int] | None:
    found = re.compile(r"\s*(\\[a-zA-Z@]+|\\.|[^\s{}])", re.DOTALL).match(source, at)
    return (found.group(1), found.end()) if found else None
