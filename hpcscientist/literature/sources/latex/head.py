"""A LaTeX document's title and authors, and what other commands before its text say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from hpcscientist.literature.sources import tex as latex_text
from hpcscientist.literature.sources import text
from hpcscientist.literature.sources.latex.macros import command, group, option

_TITLES = 20
_AUTHORS = 500
_AUTHOR_CHARACTERS = 20_000
_TITLE = re.compile(r"\\(?:title|icmltitle|Title|papertitle|TITLE)(?![a-zA-Z])")
_AUTHOR = re.compile(r"\\(?:author|icmlauthor|Author|IEEEauthorblockN)(?![a-zA-Z])")
_ASIDE = re.compile(
    r"\\(?:thanks|footnote|footnotemark|inst|textsuperscript|email|affil|affiliation|orcid|orcidID"
    r"|institute|address|vspace|hspace|thanksref|corref|fnref|footnotetext|label|IEEEauthorblockA)(?![a-zA-Z])\*?"
)
_BETWEEN = re.compile(r"\\(?:quad|qquad)(?![a-zA-Z])|,\s*(?:and\s+)?|\s+and\s+|;")
_SUFFIX = re.compile(r"(?:Jr|Sr|II|III|IV|PhD|Ph\.D|MD)\.?", re.IGNORECASE)
_BREAK = re.compile(r"\\\\(?:\[[^\]]*\])?|\\newline(?![a-zA-Z])|\n\s*\n")


def title(source: str) -> str:
    """Return the title; "" where there is none."""
    for found in islice(_TITLE.finditer(source), _TITLES):
        inside = command(source, found.end())
        if inside:
            bare = _BREAK.sub(" ", _without_asides(inside[0]))
            printed = text.one_line(latex_text.plain(bare[:5_000]), text.TITLE_CHARACTERS)
            if printed:
                return printed
    return ""


def authors(source: str) -> tuple[str, ...]:
    """Return the authors' names, as far as they can be told from what stands with them."""
    names: list[str] = []
    for found in islice(_AUTHOR.finditer(source), _AUTHORS):
        inside = command(source, found.end(), _AUTHOR_CHARACTERS)
        if not inside:
            continue
        nested = list(_AUTHOR.finditer(inside[0]))
        if not nested:
            names += _names(_without_asides(inside[0]))
    return tuple(dict.fromkeys(names))[: text.AUTHORS]


def _names(block: str) -> Iterator[str]:
    for person in re.split(r"\\(?:and|And|AND|qquad)(?![a-zA-Z])", block):
        first = next((p for p in _BREAK.split(person) if p.strip()), "")
        for part in _BETWEEN.split(first):
            name = re.sub(r"\$[^$]*\$|[\d*†‡§]", "", part)
            name = text.one_line(latex_text.plain(name), 200).strip(" ,;.~")
            if name and "@" not in name and not _SUFFIX.fullmatch(name) and len(name.split()) <= 6:
                yield name


def _without_asides(source: str) -> str:
    parts, done = list[str](), 0
    for found in _ASIDE.finditer(source):
        if found.start() < done:
            continue
        parts.append(source[done : found.start()])
        inside = command(source, found.end())
        noted = option(source, found.end())
        done = inside[1] if inside else noted[1] if noted else found.end()
    return "".join([*parts, source[done:]])


def argument_of(source: str, name: str) -> str:
    r"""Return what stands in the braces after the first \\name; "" if it is not there."""
    found = re.search(rf"\\{name}(?![a-zA-Z])", source)
    inside = group(source, found.end()) if found else None
    return inside[0].strip() if inside else ""
