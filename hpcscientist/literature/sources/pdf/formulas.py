"""Which rows of a page are a displayed formula."""

from __future__ import annotations

import re

from hpcscientist.literature.sources.pdf.lines.pages import Line
from hpcscientist.literature.sources.pdf.lines.prose import SIGNS

_NUMBERED_LINE = re.compile(r"\(\d+(?:\.\d+)*[a-z]?\)$", re.MULTILINE)
# A relation or a large operator; without one of them nothing is a formula.
_RELATION = re.compile(f"[{SIGNS.partition('⊗')[0]}]")
_OPERATOR = re.compile(r"((?<= )[=<>≤≥≈≡≅∼≃≠≪≫∝∈∉⊂⊆⊃→↦⇒⇔←≔]|(?<=[\w)\]}|] )[−±×·∘⊗⊕∪∩])(?=[^\s=])")
_NUMBER = re.compile(r"[(\[](?:[A-Z]\.?)?\d+(?:\.\d+)*[a-z]?[)\]]$")
_WORD = re.compile(r"[^\W\d_]{3,}")
_FUNCTIONS = (
    "sin cos tan sinh cosh tanh exp log max min sup inf lim det dim ker deg gcd arg argmax argmin "
    "softmax sigmoid relu gelu erf tr diag sgn sign rank span var cov mean std for all and with "
    "where otherwise subject such that mod bmod limsup liminf attention concat norm layernorm kl "
    "elbo mse loss head multihead ffn softplus"
)
_UPRIGHT = frozenset(_FUNCTIONS.split())
_BULLETS = "•◦▪▫‣●○■□–—∗*"
_PROSE = 0.4  # share of letters in words, above which a row is prose
_FRAGMENT = 40  # characters
_FORMULA = 400
MOST_PROSE_WORDS = 4


def may_have_formula(text: str, signs: str) -> bool:
    """Whether lines have anything that only formulas have; quick, for most lines have not.

    `signs` are those that the document has at all.
    """
    for sign in signs:
        if sign in text:
            return True
    return (text[-1:] == ")" or ")\n" in text) and _NUMBERED_LINE.search(text) is not None


def is_formula(row: Line, left: int) -> bool:
    """Whether a row is a formula by itself; `left` is the column's edge.

    It has a relation or a large operator, few words, and stands apart: indented, or numbered.
    """
    text = row.text
    if len(text) > _FORMULA or _RELATION.search(text) is None or prose(text) > _PROSE:
        return False
    return row.x0 - left > row.size or _NUMBER.search(text) is not None


def is_fragment(row: Line) -> bool:
    """Whether a row may be a part of a formula beside it: limits, a denominator, its number."""
    text = row.text
    if len(text) > _FRAGMENT or text[0] in _BULLETS:
        return False
    return prose(text) <= _PROSE if row.math else prose(text) == 0


def prose(text: str) -> float:
    """Return the share of a row's characters that words have."""
    words = [w for w in _WORD.findall(text) if w.lower() not in _UPRIGHT]
    if len(words) > MOST_PROSE_WORDS:
        return 1.0
    return sum(map(len, words)) / max(1, len(text) - text.count(" "))


def formula_text(rows: list[Line]) -> str:
    """Return the rows of a formula as one line, from the top, each from the left.

    MuPDF tells no gap after a symbol, so the blank after an operator with one before it is put
    back.
    """
    return _OPERATOR.sub(r"\1 ", " ".join(row.text for row in rows))


def is_numbered(text: str) -> bool:
    """Whether a row ends with a formula's number."""
    return _NUMBER.search(text) is not None
