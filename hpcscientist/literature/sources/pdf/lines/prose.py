"""Lines of type joined to running text: words parted at line ends made whole, letters plain."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

# Relations and operators that no prose has.
SIGNS = "=<>≤≥≈≡≅∼≃≠≪≫∝∈∉⊂⊆⊃→↦⇒⇔←≔∑∏∫∮∂∇√⊗⊕∘∪∩∀∃∥±×·"

# What Unicode has only for the look of it: a hyphen, ligatures, the alphabets of mathematics.
_LOOKS = re.compile("[\u2010\ufb00-\ufb06\U0001d400-\U0001d7ff]")
# What fonts without Unicode leave: control characters, and code points of private use.
_MEANINGLESS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\ud800-\uf8ff\ufeff\ufffd]+"
)
_PARTED = re.compile("[-\u2010\u00ad]\n")
_PLAIN = bytes([*range(32, 127), 10])  # printable ASCII, and the ends of lines
_OPENING = "([{\"'“‘«„/"
_FIRST_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+(?=[\w(\[\"“])")
_OPEN_ENDS = ".!?:;。！？…"
_CONTEXT = 400  # characters
_PARAGRAPH = 10_000  # what is longer is none, and would be copied again and again


def plain(text: str) -> str:
    """Return a line with ligatures and mathematical letters as plain ones, and no debris."""
    if not text.isprintable():
        text = _MEANINGLESS.sub("", text)
    if text.isascii():
        return text
    return _LOOKS.sub(lambda found: unicodedata.normalize("NFKC", found.group()), text)


@dataclass(frozen=True, slots=True)
class Spelled:
    """What a document's text has: words with a hyphen in them, and signs of mathematics.

    `odd` if it has letters that `plain` changes.
    """

    compounds: frozenset[str] = frozenset()
    signs: str = ""
    odd: bool = True

    @classmethod
    def of(cls, text: str) -> Spelled:
        """Look through a document's lines."""
        data = text.encode("utf-8", "surrogatepass").translate(None, _PLAIN)
        rare = data.decode("utf-8", "surrogatepass")
        signs = [sign for sign in SIGNS if sign in (text if sign.isascii() else rare)]
        odd = _LOOKS.search(rare) is not None or not rare.isprintable()
        return cls(_compounds(text), "".join(signs), odd)


def _compounds(text: str) -> frozenset[str]:
    found, first_word = set(), _FIRST_WORD.match
    parts = text.split("-")
    before = parts[0]
    for after in parts[1:]:
        if after[:1].islower():
            word, rest = _last_word(before), first_word(after)
            if word and rest:
                found.add(f"{word}-{rest.group()}")
        before = after
    return frozenset(found)


def mended(text: str, spelled: Spelled) -> str:
    """Return a paragraph of lines as one line.

    A hyphen at a line's end is dropped unless the document has the word with it elsewhere, or
    the word has another hyphen.
    """
    if "-\n" in text or (spelled.odd and _PARTED.search(text)):
        parts = _PARTED.split(text) if spelled.odd else text.split("-\n")
        made = [parts[0]]
        for part in parts[1:]:
            made += [_between(made[-1], part, spelled), part]
        text = "".join(made)
    text = text.replace("\n", " ")
    return plain(text) if spelled.odd else text


def _last_word(text: str) -> str:
    """Return the word at a text's end, hyphens and all."""
    word = text[text.rfind(" ") + 1 :]
    if "\n" in word:
        word = word[word.rfind("\n") + 1 :]
    return word.lstrip(_OPENING)


def _between(before: str, after: str, spelled: Spelled) -> str:
    found = _FIRST_WORD.match(after)
    word, rest = _last_word(before), found.group() if found else ""
    if not rest or not word or not word[-1].isalnum():
        return "-" if rest else "- "
    keeps = "-" in word or not rest[0].islower() or word[-1].isdigit()
    return "-" if keeps or f"{word}-{rest}" in spelled.compounds else ""


def goes_on(before: str, after: str) -> bool:
    """Whether a paragraph is the rest of the one before, parted by a column's or page's end."""
    if not before or not after or before[-1] in _OPEN_ENDS or len(before) > _PARAGRAPH:
        return False
    return after[0].islower() or before[-1] in "-\u2010\u00ad,"


def last_sentence(text: str) -> str:
    """Return the last sentence of a paragraph, or what there is of it."""
    tail = text[-2 * _CONTEXT :]
    return _SENTENCE.split(tail)[-1].strip()[-_CONTEXT:]


def first_sentence(text: str) -> str:
    """Return the first sentence of a paragraph."""
    return _SENTENCE.split(text[: 2 * _CONTEXT], maxsplit=1)[0].strip()[:_CONTEXT]
