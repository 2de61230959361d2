"""Splits a LaTeX document into abstract, sections, displayed formulas and citations.

The document is one text, without comments, with the author's macros expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from hpcscientist.literature.sources import tex as latex_text
from hpcscientist.literature.sources import text
from hpcscientist.literature.sources.latex.macros import command
from hpcscientist.records.literature import Formula, Section

_SECTION_CHARACTERS = 100_000
_FORMULAS = 2_000
_HEADINGS = 2_000
_ABSTRACT_CHARACTERS = 50_000
_FORMULA_CHARACTERS = 5_000
_CONTEXT = 1_500  # characters of LaTeX before a formula that are searched for its sentence
_SHOWN_CONTEXT = 400

_HEADING = re.compile(
    r"\\(?:part|chapter|section|subsection|subsubsection|addpart|addchap|addsec)(?![a-zA-Z])\*?"
)
_LIST_ITEM = re.compile(r"\\item(?![a-zA-Z])(?:\s*\[([^\[\]]*)\])?")
_SHOWN = re.compile(
    r"\\begin\s*\{(equation|align|gather|multline|eqnarray|displaymath|flalign|alignat|dmath|IEEEeqnarray)(\*?)\}"
    r"|\$\$|(?<!\\)\\\["
)
_KEYS = r"(?:\s*\[[^\[\]]*\]){0,2}\s*\{[^{}]*\}"
# natbib's and BibLaTeX's; `\cites` and its like take several pairs of brackets and braces.
_CITE = re.compile(
    r"\\(?:[pP]aren|[tT]ext|[aA]uto|[fF]oot|[sS]mart|super|(?:foot)?full)?[cC]ite"
    rf"(?:s\*?(?:{_KEYS})+|(?!s(?![a-zA-Z]))[a-zA-Z]*\*?{_KEYS})"
)
_NOCITE = re.compile(r"\\nocite\s*\{([^{}]*)\}")
_NOTE, _KEY_GROUP = re.compile(r"\[[^\[\]]*\]"), re.compile(r"\{([^{}]*)\}")
_DROPPED = re.compile(
    r"\\(?:label|ref|eqref|autoref|[cC]ref|pageref|index|nocite|vspace|hspace|includegraphics|input"
    r"|bibliography(?:style)?|pagestyle|thispagestyle|setlength|setcounter|acks|IfFileExists)\*?(?:\[[^\[\]]*\])?\s*\{[^{}]*\}"
    r"|\\nonumber|\\notag|\\maketitle|\\appendix|\\qedhere"
)
_BEGIN_END = re.compile(
    r"\\begin\s*\{(?:minipage|multicols\*?|spacing|adjustwidth\*?(?=\}\{[^{}]*\}(?P<two>\{)))\}"
    r"(?:\[[^\[\]]*\]){0,3}\{[^{}]*\}(?(two)\{[^{}]*\})"
    r"|\\(?:begin|end)\s*\{[^{}]*\}(?:\[[^\[\]]*\])?"
)
_COLUMNS = ("alignat", "IEEEeqnarray")  # their columns come before the formula
_ALIGNMENT = re.compile(r"^\{[^{}]*\}")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z$\\(\[])")
_SILENT = ("verbatim", "lstlisting", "minted", "comment", "filecontents", "thebibliography")
_FLOATS = (
    "figure",
    "table",
    "wrapfigure",
    "wraptable",
    "algorithm",
    "tikzpicture",
    "tabular",
    "tabularx",
    "longtable",
    "pgfpicture",
    "algorithmic",
)


class TextSpan(NamedTuple):
    """A range of a text: where it begins and ends, and where its inside begins and ends."""

    begin: int
    inside: int
    inside_end: int
    end: int


def spans(source: str, name: str) -> Iterator[TextSpan]:
    """Yield the environments of a name, starred or not, in order."""
    begin = re.compile(rf"\\begin\s*\{{{name}\*?\}}")
    end = re.compile(rf"\\end\s*\{{{name}\*?\}}")
    at = 0
    while (found := begin.search(source, at)) and (closed := end.search(source, found.end())):
        yield TextSpan(found.start(), found.end(), closed.start(), closed.end())
        at = closed.end()


def without(source: str, names: tuple[str, ...], captions: bool = False) -> str:
    """Return a text without some environments; `captions` keeps their captions."""
    for name in names:
        parts, done = list[str](), 0
        for span in spans(source, name):
            parts.append(source[done : span.begin])
            parts += _captions(source[span.inside : span.inside_end]) if captions else []
            done = span.end
        source = "".join([*parts, source[done:]])
    return source


def _captions(source: str) -> Iterator[str]:
    for found in re.finditer(r"\\caption(?:of\{[^{}]*\})?\*?", source):
        inside = command(source, found.end())
        if inside:
            yield f"\n\n{inside[0]}\n\n"


def silent(source: str) -> str:
    """Return a document without verbatim text and bibliography."""
    return without(source, _SILENT)


def abstract(source: str) -> tuple[str, str]:
    """Return the abstract as plain text, and the document without it."""
    span = next(spans(source, "abstract"), None)
    if span is None:
        found = re.search(r"\\abstract(?![a-zA-Z])", source)
        inside = command(source, found.end(), _ABSTRACT_CHARACTERS) if found else None
        if not found or not inside:
            return "", source
        written, begin, end = inside[0], found.start(), inside[1]
    else:
        written, begin, end = source[span.inside : span.inside_end], span.begin, span.end
    printed = text.one_line(printable(written[: 2 * text.ABSTRACT_CHARACTERS]))
    return printed, source[:begin] + source[end:]


def sections(source: str) -> Iterator[tuple[Section, tuple[Formula, ...]]]:
    """Yield the non-empty sections, each with its displayed formulas."""
    headings = islice(_HEADING.finditer(source), _HEADINGS)
    found = [(h, command(source, h.end())) for h in headings]
    marks = [(0, 0, "")]
    for mark, inside in found:
        if inside and mark.start() >= marks[-1][1]:
            marks.append((mark.start(), inside[1], _line(inside[0])))
    ends = [begin for begin, _, _ in marks[1:]] + [len(source)]
    for (_, begin, heading), end in zip(marks, ends, strict=True):
        body = source[begin:end]
        section = Section(heading=heading, text=printable(body))
        shown = tuple(formulas(body, heading))
        if section.text or shown:
            yield section, shown


def _line(source: str) -> str:
    return text.one_line(printable(source[:5_000]), text.TITLE_CHARACTERS)


def printable(source: str) -> str:
    """Return running LaTeX as plain text: formulas stay, citations become keys in brackets."""
    source = without(source, _FLOATS, captions=True)
    parts = (_cleaned(t) + (f" $${f}$$ " if f else "") for t, f in _shown(source))
    return text.paragraphs("".join(parts), _SECTION_CHARACTERS)


def _cleaned(source: str) -> str:
    """Return LaTeX that has no displayed formulas as plain text; inline formulas stay."""
    source = _DROPPED.sub("", _CITE.sub(lambda m: f"[{','.join(_groups(m.group()))}]", source))
    parts = latex_text.split_math(source)
    return "".join(p if i % 2 else _prose(p) for i, p in enumerate(parts))


def _groups(citation: str) -> list[str]:
    """Return what stands in the braces of a citation, outside its brackets."""
    return _KEY_GROUP.findall(_NOTE.sub("", citation))


def _prose(source: str) -> str:
    source = _BEGIN_END.sub("\n", source).replace("\\\\", "\n")
    lead = " " if source[:1].isspace() else ""
    trail = " " if source[-1:].isspace() else ""
    return lead + latex_text.plain(_LIST_ITEM.sub(_item, source), quick=True) + trail


def _item(found: re.Match[str]) -> str:
    return f"\n- {found.group(1)}: " if found.group(1) else "\n- "


def formulas(source: str, heading: str) -> Iterator[Formula]:
    """Yield the displayed formulas of a section, each with the sentence before or after it."""
    found = list(_shown(without(source, _FLOATS)))[: 2 * _FORMULAS]
    for number, (before, formula) in enumerate(found):
        if not formula:
            continue
        after = found[number + 1][0] if number + 1 < len(found) else ""
        context = _last_sentence(before) or _first_sentence(after)
        yield Formula(text=formula, section=heading, context=context)


def _shown(source: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of text and the displayed formula after it; the last formula is ""."""
    done = at = 0
    hopeless: set[str] = set()
    while found := _SHOWN.search(source, at):
        at = found.end()
        closing = (
            rf"\end{{{found[1]}{found[2]}}}" if found[1] else "$$" if found[0] == "$$" else r"\]"
        )
        end = source.find(closing, at) if closing not in hopeless else -1
        if end < 0:
            hopeless.add(closing)
            continue
        inside = source[at:end]
        formula = _formula(_ALIGNMENT.sub("", inside) if found[1] in _COLUMNS else inside)
        at = end + len(closing)
        if formula:
            yield source[done : found.start()], formula
            done = at
    yield source[done:], ""


def _formula(source: str) -> str:
    bare = re.sub(r"\\(?:label|tag\*?)\s*\{[^{}]*\}|\\nonumber|\\notag", "", source)
    return text.one_line(bare, _FORMULA_CHARACTERS).strip(" ,.;")


def _last_sentence(source: str) -> str:
    whole = " ".join(printable(source[-_CONTEXT:]).split())
    return _SENTENCE_END.split(whole)[-1].strip()[-_SHOWN_CONTEXT:]


def _first_sentence(source: str) -> str:
    whole = " ".join(printable(source[:_CONTEXT]).split())
    return _SENTENCE_END.split(whole)[0].strip()[:_SHOWN_CONTEXT]


def cited(source: str) -> list[str]:
    """Return the cited keys, in order, and "*" if all are cited."""
    groups = [group for found in _CITE.findall(source) for group in _groups(found)]
    keys = [k.strip() for group in (*groups, *_NOCITE.findall(source)) for k in group.split(",")]
    return list(dict.fromkeys(k for k in keys if k))
