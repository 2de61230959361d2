"""Tokens of Python text that need not be whole: an edit quotes a piece of a file.

The standard library's tokenizer refuses a piece that begins within a block or ends within
brackets, so a regular expression cuts the text here. An f-string is one token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["string", "comment", "number", "name", "operator"]

_TOKEN = re.compile(
    r"""
    (?P<string>(?i:[rbfu]{0,2})(?:
        \"\"\"(?:\\.|[^\\])*?\"\"\" | '''(?:\\.|[^\\])*?'''
        | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'))
    | (?P<comment>\#[^\n]*)
    | (?P<blank>[ \t\f\r]+ | \\\r?\n | \n)
    | (?P<number>(?:0[xXoObB][\da-fA-F_]+ | (?:\d[\d_]*)?\.?\d[\d_]*\.?(?:[eE][+-]?\d+)?)[jJ]?)
    | (?P<name>\w+)
    | (?P<operator>\*\*=|//=|>>=|<<=|\.\.\.|\*\*|//|>>|<<|->|:=|[-+*/%&|^@=!<>]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """A token: its lines (from 0), where it stands in the text, and the brackets open before."""

    kind: Kind
    text: str
    start: int
    end: int
    first: int
    last: int
    depth: int


def tokens(text: str) -> list[Token]:
    """Return the tokens of a text in order; white space and line ends are left out."""
    found: list[Token] = []
    line = depth = 0
    for match in _TOKEN.finditer(text):
        kind, part = match.lastgroup, match.group()
        last = line + part.count("\n")
        if kind != "blank":
            found.append(Token(kind, part, match.start(), match.end(), line, last, depth))  # type: ignore[arg-type]
        if kind == "operator":
            depth = max(0, depth + (part in "([{") - (part in ")]}"))
        line = last
    return found
