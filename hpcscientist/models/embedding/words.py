"""Texts as index terms: the words of keyword indexes and of latent vectors.

Case, width and accents make no difference, English words are reduced to their stems (the
Snowball stemmer, Porter 1980), and words joined by hyphens are also taken as one: "pre-training"
is found by "pretraining". Scripts without spaces are taken by characters and pairs of them.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from itertools import pairwise
from typing import Any

LONGEST = 64  # characters of a term; what is longer is no word

# Thai, Lao, Burmese, Khmer, Japanese, Chinese.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Signs inside words that Python counts as no letters: Hebrew, Arabic, and scripts of India.
_MARKS = "\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0970-\u0dff"
_WORD = rf"[^\W_{_UNSPACED}](?:[{_MARKS}]|[^\W_{_UNSPACED}])*"
_PIECES = re.compile(rf"[0-9]+\.[0-9]+(?![^\W_])|[{_UNSPACED}]+|{_WORD}(?:[-\u2010\u2011]{_WORD})*")
# The same where a text is ASCII, and ten times as fast.
_PLAIN_PIECES = re.compile(r"[0-9]+\.[0-9]+(?![a-z0-9])|[a-z0-9]+(?:-[a-z0-9]+)*")
_SPANS = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_ACRONYMS = re.compile(r"\b([A-Z]{2,})s\b")
_ACCENTS = re.compile("[\u0300-\u036f]")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]|['’]s\\b")
_LETTERS = str.maketrans({"ø": "o", "æ": "ae", "œ": "oe", "đ": "d", "ł": "l", "ı": "i"})
_HYPHENS = re.compile("[-\u2010\u2011]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")

_STOP = (
    "a about after all also an and any are as at be because been before between both but by can "
    "could did do does during each for from further had has have he her here his how i if in into "
    "is it its itself just me more most my no nor not of on once only or other our out over own s "
    "same she should so some such than that the their them then there these they this those "
    "through to too under until up very was we were what when where which while who whom why will "
    "with would you your"
)
STOP = frozenset(_STOP.split())  # words, not stems, that say nothing about a text's subject

_KNOWN = 200_000  # stretches whose terms are remembered: some 50 MB
_LONGEST_KNOWN = 40  # characters; longer ones are formulas, addresses, and scripts without spaces

_local = threading.local()


class _Known(dict[str, str]):
    """The terms of stretches between blanks, joined by blanks; any thread may ask.

    No word goes over a blank, so a text's terms are those of its stretches; and most of these
    were met before, in this text or another one.
    """

    def __init__(self, left_out: frozenset[str]) -> None:
        super().__init__()
        self._left_out = left_out

    def __missing__(self, stretch: str) -> str:
        found = [piece for piece in pieces(stretch) if piece not in self._left_out]
        joined = " ".join(stems(found))
        if len(stretch) <= _LONGEST_KNOWN:
            if len(self) >= _KNOWN:
                self.clear()
            self[stretch] = joined
        return joined


_TERMS, _TELLING = _Known(frozenset()), _Known(STOP)


def words(text: str) -> list[str]:
    """Return a text's terms, in order, repeated as often as they occur."""
    return joined(text).split()


def joined(text: str) -> str:
    """Return a text's terms with blanks between them, two where a stretch has none."""
    return " ".join([_TERMS[stretch] for stretch in text.split()])


def telling(text: str) -> list[str]:
    """Return the terms of a text's words that say something about its subject."""
    return " ".join([_TELLING[stretch] for stretch in text.split()]).split()


def pieces(text: str) -> list[str]:
    """Return a text's words as written but for case, width and accents: not yet stems."""
    plain = normal(_ACRONYMS.sub(r"\1", text))
    pattern = _PLAIN_PIECES if plain.isascii() else _PIECES
    found: list[str] = []
    for piece in pattern.findall(plain):
        if piece.isalnum() and (piece.isascii() or not _is_unspaced(piece)):
            found.append(piece)
        else:
            found += _several(piece)
    return [piece[:LONGEST] for piece in found]


def normal(text: str) -> str:
    """Return the text without case, accents and differences of width, as terms are made from."""
    if text.isascii():
        plain = text.lower()
        return _UNSEEN.sub("", plain) if "'" in plain else plain
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    plain = unicodedata.normalize("NFC", _ACCENTS.sub("", plain))
    return _UNSEEN.sub("", plain.translate(_LETTERS))


def stems(found: list[str]) -> list[str]:
    """Return the stem of each word; words that `pieces` returned."""
    if not found:
        return []
    stemmed: list[str] = _stemmer().analyze(" ".join(found))
    return stemmed


def spans(text: str) -> list[tuple[int, int, frozenset[str]]]:
    """Return where words are in a text, from start to end, with the terms of each."""
    found = [(match.start(), match.end()) for match in _SPANS.finditer(text)]
    return [(start, end, frozenset(words(text[start:end]))) for start, end in found]


def identifiers(code: str) -> list[str]:
    """Return the terms of code: identifiers' parts, and those of several parts whole as well.

    "MultiHeadAttention" gives multi, head, attent and multiheadattention; so does
    "multi_head_attention".
    """
    found: list[str] = []
    for name in _IDENTIFIER.findall(unicodedata.normalize("NFKC", code)):
        parts = [normal(part) for part in _CAMEL.split(name) if part]
        found += [part[:LONGEST] for part in parts]
        if len(parts) > 1:
            found.append("".join(parts)[:LONGEST])
    return words(" ".join(found))


def _several(piece: str) -> list[str]:
    """Return the words in a piece that is not plainly one."""
    if _is_unspaced(piece):
        return [*piece, *(a + b for a, b in pairwise(piece))]
    parts = _HYPHENS.split(piece)
    joined = len(parts) in (2, 3) and not any(c.isdigit() for c in piece)
    return [*parts, "".join(parts)] if joined else parts


def _is_unspaced(piece: str) -> bool:
    return re.match(f"[{_UNSPACED}]", piece) is not None


def _stemmer() -> Any:
    """Return this thread's stemmer; it splits at spaces alone."""
    if not hasattr(_local, "stemmer"):
        import tantivy  # noqa: PLC0415 (heavy)

        builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
        _local.stemmer = builder.filter(tantivy.Filter.stemmer("english")).build()
    return _local.stemmer
