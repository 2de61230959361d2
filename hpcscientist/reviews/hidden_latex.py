"""What a LaTeX source says that its PDF does not show: comments, white and tiny text, phantoms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_WHITE: Final = 0.85  # of each part of a colour
_TINY: Final = 4.0  # points
_NUMBER = r"\d*\.?\d+"
_DEFINED = re.compile(
    r"\\definecolor\s*\{([^{}]+)\}\s*\{(rgb|RGB|HTML|gray|cmyk)\}\s*\{([^{}]+)\}"
    r"|\\colorlet\s*\{([^{}]+)\}\s*\{([^{}]+)\}"
)
_COLOUR = r"(?:\[(rgb|RGB|HTML|gray|cmyk)\])?\s*\{([^{}]*)\}"
# Of their last argument nothing is seen.
_ARGUMENT = re.compile(
    rf"\\textcolor\s*{_COLOUR}\s*(?=\{{)|\\[hv]?phantom\s*(?=\{{)|\\pdftooltip\s*\{{[^{{}}]*\}}\s*(?=\{{)"
    rf"|\\texttransparent\s*\{{0*\.?0*\}}\s*(?=\{{)|\\(?:hypersetup|pdfinfo|pdfcomment)\s*(?=\{{)"
    rf"|\\scalebox\s*\{{0?\.[01]\d*\}}\s*(?=\{{)"
)
# Nothing is seen from here to the end of the group.
_SWITCH = re.compile(
    rf"\\color\s*{_COLOUR}|\\fontsize\s*\{{\s*({_NUMBER})\s*(?:pt)?\s*\}}\s*\{{[^{{}}]*\}}\s*\\selectfont"
    r"|\\transparent\s*\{0*\.?0*\}"
)
_COMMENT = re.compile(r"(?<!\\)(?:\\\\)*%+([^\n]*)")
_UNSHOWN = re.compile(
    r"\\begin\s*\{comment\}(.*?)\\end\s*\{comment\}|\\iffalse(?![a-zA-Z])(.*?)\\fi(?![a-zA-Z])",
    re.S,
)


def comments(source: str) -> Iterator[str]:
    """Yield comments, those on lines that follow each other as one, and what is switched off."""
    block = list[str]()
    for line in source.split("\n"):
        found = _COMMENT.search(line)
        if found:
            block.append(found[1].strip())
        if block and (not found or line[: found.start()].strip()):
            yield " ".join(block).strip()
            block = []
    if block:
        yield " ".join(block).strip()
    for found in _UNSHOWN.finditer(source):
        yield (found[1] or found[2] or "").strip()


def whites(source: str) -> frozenset[str]:
    """Return the names of colours that are white, or nearly so."""
    names = {"white"}
    for found in _DEFINED.finditer(source):
        name, model, value, other, given = found.groups()
        if name and _is_white(model, value):
            names.add(name.strip())
        elif other and given.strip() in names:
            names.add(other.strip())
    return frozenset(names)


def without(source: str, white: frozenset[str]) -> tuple[str, list[str]]:
    """Return LaTeX without what its PDF does not show, and that text."""
    hidden = list[str]()

    def is_hidden(found: re.Match[str]) -> bool:
        said = found[0]
        if said.startswith((r"\textcolor", r"\color")):
            model, value = found[1], found[2]
            return _is_white(model, value) if model else _named(value, white)
        return not said.startswith(r"\fontsize") or float(found[3]) < _TINY

    for pattern, whole in ((_ARGUMENT, False), (_SWITCH, True)):
        parts, done = list[str](), 0
        for found in pattern.finditer(source):
            if found.start() < done or not is_hidden(found):
                continue
            end = group_end(source, found.end() if whole else found.end() + 1)
            hidden.append(source[found.end() : end].strip("{} \n"))
            start, end = found.start(), end if whole else end + 1
            if whole and source[start - 1 : start] == "{" and source[end : end + 1] == "}":
                start, end = start - 1, end + 1  # the group had nothing else
            parts.append(source[done:start])
            done = end
        source = "".join([*parts, source[done:]])
    return source, [text for text in hidden if text]


def _named(value: str, white: frozenset[str]) -> bool:
    """Whether a colour's name is white, or a mixture of it with next to nothing (white!95!blue)."""
    name, _, rest = value.strip().partition("!")
    share = re.match(_NUMBER, rest)
    if name not in white:
        # "black!3" is black with 97 parts of white.
        return bool(share) and "!" not in rest and float(share[0]) <= 100 * (1 - _WHITE)  # type: ignore[index]
    return share is None or float(share[0]) >= 100 * _WHITE


def _is_white(model: str, value: str) -> bool:
    if model == "HTML":
        digits = value.strip()
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)] if _is_hex(digits) else []
    else:
        numbers = [float(part) for part in re.findall(_NUMBER, value)]
        parts = [part / 255 for part in numbers] if model == "RGB" else numbers
        if model == "cmyk":
            parts = [1 - part for part in parts]
    return bool(parts) and min(parts) >= _WHITE


def _is_hex(text: str) -> bool:
    return re.fullmatch(r"[0-9A-Fa-f]{6}", text) is not None


def group_end(source: str, start: int) -> int:
    """Return where the group ends that `start` is in: its brace, or the end of the text."""
    depth = 0
    for found in re.finditer(r"\\.|[{}]", source[start:], re.S):
        if found[0] == "{":
            depth += 1
        elif found[0] == "}":
            if depth == 0:
                return start + found.start()
            depth -= 1
    return len(source)
