"""The terms of papers, formulas and symbols, field by field, and how much each field counts.

A field's terms are joined by spaces: the index only splits there, so that what is a term is
said in one place, `hpcscientist.models.embedding.words`, for the index and the query alike.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from hpcscientist.literature.library.files.parts import Positions
from hpcscientist.literature.library.store import Store
from hpcscientist.models.embedding.words import identifiers, joined, pieces, words
from hpcscientist.records.known.literature import Paper, Symbol

# A word in a title tells more of a paper than one in its abstract, and that more than one among
# ten thousand; the weights of BM25 are multiplied by these.
PAPERS: Mapping[str, float] = MappingProxyType({"title": 2.0, "abstract": 1.0, "body": 0.5})
FORMULAS: Mapping[str, float] = MappingProxyType({"context": 2.0, "formula": 1.0, "title": 0.5})
SYMBOLS: Mapping[str, float] = MappingProxyType(
    {"name": 3.0, "docstring": 1.5, "signature": 1.0, "code": 0.5}
)

Row = Mapping[str, Any]
OF_PAPER = ("paper_id", "title", "abstract", "sections")
OF_FORMULAS = ("paper_id", "title", "formulas")
OF_VECTOR = ("paper_id", "title", "abstract")
SPELLING = "spelling"  # a field of papers that is not searched: title words as they are written

_BODY = 200_000  # characters of a paper that are indexed; a long article has half of them
_CODE = 10_000
_READ = 4000  # of a paper that become its vector: more than models read
_GREEK = re.compile(r"GREEK (?:SMALL|CAPITAL) LETTER (?:FINAL )?(\w+)")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
# Commands that say how a formula looks and nothing of what it says.
_LOOKS_TEXT = (
    "left right big bigg Big Bigg mathrm mathbf mathcal mathbb mathit text textbf textit rm bf "
    "quad qquad displaystyle limits nolimits label nonumber begin end aligned align array "
    "operatorname boldsymbol hat bar tilde vec ensuremath"
)
_LOOKS = frozenset(_LOOKS_TEXT.split())
_SIGNS = {
    "∑": " sum ",
    "∏": " prod ",
    "∫": " int ",
    "∂": " partial ",
    "∇": " nabla ",
    "∞": " infty ",
    "√": " sqrt ",
    "∈": " in ",
    "≤": " le ",
    "≥": " ge ",
    "≠": " ne ",
    "≈": " approx ",
    "∝": " propto ",
    "→": " to ",
    "×": " times ",
    "·": " cdot ",
    "ℓ": " ell ",
}


def paper_terms(paper: Row) -> dict[str, str]:
    """Return the terms of a paper's fields; of a row, OF_PAPER are asked for."""
    return {
        "title": joined(paper["title"]),
        "abstract": joined(paper["abstract"]),
        "body": joined(_beginning((s["heading"], s["text"]) for s in paper["sections"])),
        SPELLING: " ".join(dict.fromkeys(pieces(paper["title"]))),
    }


def formula_terms(formula: Row, title: str) -> dict[str, str]:
    """Return the terms of a formula's fields: itself, what is said of it, and its paper's title."""
    return {
        "formula": " ".join(formula_words(formula["text"])),
        "context": joined(f"{formula['section']}\n{formula['context']}"),
        "title": joined(title),
    }


def symbol_terms(symbol: Symbol) -> dict[str, str]:
    """Return the terms of a symbol's fields."""
    return {
        "name": " ".join(identifiers(symbol.name)),
        "signature": " ".join(identifiers(symbol.signature)),
        "docstring": joined(symbol.docstring),
        "code": " ".join(identifiers(symbol.code[:_CODE])),
    }


def formula_words(text: str) -> list[str]:
    """Return the terms of a formula: letters, numbers, and the names of commands and signs.

    `\\alpha` and α are one term, and so are `\\sum` and ∑.
    """
    names = (name.removeprefix("var") for name in _COMMAND.findall(text) if name not in _LOOKS)
    rest = unicodedata.normalize("NFKC", _COMMAND.sub(" ", text))  # italic letters are letters
    return words(f"{' '.join(names)} {rest.translate(_NAMES)}".replace("_", " "))


def body(paper: Paper) -> str:
    """Return the text of a paper's sections, as much as is indexed."""
    return _beginning((section.heading, section.text) for section in paper.sections)


def _beginning(sections: Iterable[tuple[str, str]]) -> str:
    parts, left = [], _BODY
    for heading, text in sections:
        part = f"{heading}\n{text}"[:left]
        parts.append(part)
        left -= len(part)
        if left <= 0:
            break
    return "\n".join(parts)


def vector_texts(store: Store, positions: Positions) -> Iterator[tuple[int, str, str]]:
    """Yield position, id, and what of a paper becomes its vector.

    That is title and abstract, or how its text begins.
    """
    for position, row in store.rows(positions, OF_VECTOR):
        text = row["abstract"] or body(store.paper_at(position))
        yield position, row["paper_id"], f"{row['title']}\n{text}"[:_READ]


class _Names(dict[int, str]):
    """Signs by name: Greek letters and operators as LaTeX calls them, others as they are."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        greek = None if character.isascii() else _GREEK.match(unicodedata.name(character, ""))
        name = greek[1].lower() if greek else ""
        said = f" {'lambda' if name == 'lamda' else name} " if greek else None
        self[code] = said or _SIGNS.get(character, character)
        return self[code]


_NAMES = _Names()
