"""Splits a paragraph into sentences of words and references, and binds references to mentions.

A reference is bound to an idea, a split, a metric or a statistic that the sentence mentions. The
grammar alone decides which: a mention after it with a preposition ("{x} on the test split"), else
one before it, else one later in the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from hpcscientist.papers.formulas import BadFormula, Quantity, resolve
from hpcscientist.papers.walls.finding import words
from hpcscientist.records.facts import FactSheet
from hpcscientist.records.manuscript import Citation, FigureRef, Line, Number, Text, walk

HOLE = "\N{OBJECT REPLACEMENT CHARACTER}"
T = TypeVar("T")

_TOKEN = re.compile(
    rf"{HOLE}|[^\W_](?:[\w.]*[^\W_])?(?:[-'\u2019/](?=[^\W_])[^\W_](?:[\w.]*[^\W_])?)*|\S"
)
_ABBREVIATED = re.compile(r"(?:\b(?:et al|e\.g|i\.e|vs|cf|Fig|Eq|Sec|approx|resp)|\b[A-Z])\.$")
_END = re.compile(r"[.?!][\"'\u201d\u2019)]*(?=\s|$)")
_CLAUSE = frozenset({",", ";", ":", "\N{EM DASH}", "."})
_CONJUNCTIONS = frozenset(
    {"and", "while", "whereas", "but", "or", "although", "though", "because", "since", "which"}
)
_PREPOSITIONS = words(
    """
    for of by with on in at from under during using across after within among without over against
    than above below to
    """
)


@dataclass(frozen=True, slots=True)
class TextReference:
    """A number, citation or figure of a text; `quantity` is None if it does not resolve to one."""

    part: Number | Citation | FigureRef
    quantity: Quantity | None = None
    problem: BadFormula | None = None


@dataclass(frozen=True, slots=True)
class SentenceToken:
    """A word, a punctuation mark or (with `ref`) a reference; `start` is its place in the text."""

    text: str
    start: int
    ref: TextReference | None = None

    @property
    def word(self) -> str:
        """The word in lower case, without a genitive 's."""
        return re.sub(r"['\u2019]s$", "", self.text.lower())

    @property
    def end(self) -> int:
        """The place after its last character."""
        return self.start + len(self.text)

    @property
    def quantity(self) -> Quantity | None:
        """The value of a number."""
        return self.ref.quantity if self.ref is not None else None


@dataclass(frozen=True, slots=True)
class Mention(Generic[T]):
    """Words that mention something: tokens `first` to `last`, inclusive.

    `is_comparand`: something else is compared with it, as in "than the baseline". `is_weak`: it
    counts only if there is no clearer mention.
    """

    value: T
    first: int
    last: int
    is_comparand: bool = False
    is_weak: bool = False


@dataclass
class Sentence:
    """One sentence. `text` has `HOLE` in place of each reference."""

    tokens: list[SentenceToken]
    text: str
    before: Sentence | None = None
    context: str = ""  # the title of the section, or the figure's caption it is in
    known: dict[str, Any] = field(default_factory=dict)  # a cache of mentions

    @cached_property
    def words(self) -> list[str]:
        """The tokens in lower case."""
        return [token.word for token in self.tokens]

    @cached_property
    def numbers(self) -> list[int]:
        """The places of the numbers that resolve to a value."""
        return [at for at, token in enumerate(self.tokens) if token.quantity is not None]

    @property
    def citations(self) -> list[str]:
        """The ids of the cited papers."""
        parts = [token.ref.part for token in self.tokens if token.ref is not None]
        return [paper for part in parts if isinstance(part, Citation) for paper in part.papers]

    def clause(self, at: int) -> tuple[int, int]:
        """Return the first token of the clause around a place, and the one after its last."""
        first = at
        while first > 0 and not self._divides(first - 1):
            first -= 1
        last = at + 1
        while last < len(self.tokens) and not self._divides(last):
            last += 1
        return first, last

    def _divides(self, at: int) -> bool:
        word = self.tokens[at].word
        if word in {";", "\N{EM DASH}", "while", "whereas", "but"}:
            return True
        if word == "," and at + 1 < len(self.tokens):
            following = self.tokens[at + 1].word
            return following in {"and", "while", "whereas", "but", "although", "though"}
        return False

    def phrase(self, phrase: Sequence[str], at: int) -> bool:
        """Return whether the words at a place are `phrase`."""
        return self.words[at : at + len(phrase)] == list(phrase)


@dataclass(frozen=True, slots=True)
class Flat:
    """A paragraph as one text, with `HOLE` for each reference, and the references in order."""

    text: str
    references: tuple[TextReference, ...]


def flatten(line: Line, sheet: FactSheet) -> Flat:
    """Return a paragraph's text, including emphasised words, and its references."""
    text, references = "", list[TextReference]()
    for part in walk(line):
        if isinstance(part, Text):
            text += part.text
            continue
        text += HOLE
        if isinstance(part, Number):
            try:
                references.append(TextReference(part, resolve(part.ref, sheet)))
            except BadFormula as problem:
                references.append(TextReference(part, None, problem))
        else:
            references.append(TextReference(part))
    return Flat(text, tuple(references))


def sentences(flat: Flat, context: str = "") -> list[Sentence]:
    """Return a paragraph's sentences."""
    references = iter(flat.references)
    found: list[Sentence] = []
    for start, end in _spans(flat.text):
        tokens = [
            SentenceToken(match[0], match.start(), next(references) if match[0] == HOLE else None)
            for match in _TOKEN.finditer(flat.text, start, end)
        ]
        if tokens:
            before = found[-1] if found else None
            found.append(Sentence(tokens, flat.text[start:end].strip(), before, context))
    return found


def _spans(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _END.finditer(text):
        rest = text[match.end() :].lstrip()
        if _ABBREVIATED.search(text[start : match.start() + 1]) and rest[:1].islower():
            continue
        if _ABBREVIATED.search(text[start : match.start() + 1]) and rest[:1] in ("(", HOLE, ""):
            continue
        if rest and rest[0].islower() and not rest.startswith("idea-"):
            continue
        yield start, match.end()
        start = match.end()
    if text[start:].strip():
        yield start, len(text)


def bind(
    sentence: Sentence, at: int, mentions: Iterable[Mention[T]], *, shared: bool = True
) -> Mention[T] | None:
    """Return the mention that the reference at a place belongs to, or None.

    With `shared`, a mention may have several references. Otherwise a mention that another reference
    claims with a preposition belongs to that one.
    """
    found = sorted(mentions, key=lambda mention: mention.first)
    clear = [mention for mention in found if not mention.is_weak]
    found = clear or found
    if not found:
        return None
    if (after := _after(sentence, at, found)) is not None:
        return after
    if (aligned := _respectively(sentence, at, found)) is not None:
        return aligned
    taken: list[Mention[T]] = []
    for other in sentence.numbers:
        if other != at and (theirs := _after(sentence, other, found)) is not None:
            taken.append(theirs)
    free = found if shared else [m for m in found if m not in taken]
    earlier = [m for m in free if m.last < at]
    if earlier:
        return earlier[-1]
    later = [m for m in free if m.first > at]
    if later:
        return later[0]
    rest = [m for m in found if m.last < at]
    return rest[-1] if rest else None


def _after(sentence: Sentence, at: int, mentions: Sequence[Mention[T]]) -> Mention[T] | None:
    """Return the mention that follows with a preposition in the same phrase, or None."""
    preposition, depth = -9, 0  # place of the last preposition, depth of brackets
    words = sentence.words
    for place in range(at + 1, min(len(sentence.tokens), at + 14)):
        token = sentence.tokens[place]
        depth += (token.text == "(") - (token.text == ")")
        if depth < 0:  # the brackets around the reference end here
            return None
        for mention in mentions:
            leads = (
                place - preposition <= 4
                or words[place - 1 : place] == ["("] == words[at + 1 : at + 2]
            )
            if mention.first == place and not mention.is_comparand and leads:
                return mention
        if token.quantity is not None or token.word in _CLAUSE or token.word in _CONJUNCTIONS:
            return None
        if token.word in _PREPOSITIONS:
            preposition = place
        elif token.word in ("before", "after"):
            preposition = -9
    return None


def _respectively(sentence: Sentence, at: int, mentions: Sequence[Mention[T]]) -> Mention[T] | None:
    """Pair references with as many mentions before them: "respectively", "from {a} to {b}"."""
    numbers = sentence.numbers
    if "respectively" not in sentence.words and not _is_range(sentence, numbers):
        return None
    values = [m for m in mentions if m.last < numbers[0]]
    if len(numbers) < 2 or len({str(m.value) for m in values}) < 2:
        return None
    values = values[-len(numbers) :]
    return values[numbers.index(at)] if len(values) == len(numbers) else None


def _is_range(sentence: Sentence, numbers: Sequence[int]) -> bool:
    """Return whether the numbers are the two of "from {a} to {b}"."""
    leads = [sentence.words[at - 1] for at in numbers if at]
    return leads == ["from", "to"]


@dataclass(slots=True)
class Finder(Generic[T]):
    """A finder of phrases in sentences: longer phrases first, and no word twice."""

    phrases: dict[tuple[str, ...], T]
    weak: dict[tuple[str, ...], T] = field(default_factory=dict)
    fits: Callable[[Sentence, int, int], bool] = lambda sentence, first, last: True
    # Phrases by first word: a campaign of thousands of ideas has tens of thousands of phrases.
    _starts: dict[str, list[tuple[tuple[str, ...], T, bool]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for listed, weak in ((self.phrases, False), (self.weak, True)):
            for phrase, value in listed.items():
                self._starts.setdefault(phrase[0], []).append((phrase, value, weak))

    def __call__(self, sentence: Sentence) -> list[Mention[T]]:
        """Return the mentions in their order."""
        words, found, taken = sentence.words, list[Mention[T]](), set[int]()
        met = [
            (weak, -len(phrase), first, value)
            for first, word in enumerate(words)
            for phrase, value, weak in self._starts.get(word, ())
            if tuple(words[first : first + len(phrase)]) == phrase
        ]
        for weak, negative, first, value in sorted(met, key=lambda entry: entry[:3]):
            span = range(first, first - negative)
            if not taken & set(span) and self.fits(sentence, first, span[-1]):
                taken.update(span)
                found.append(Mention(value, first, span[-1], is_weak=weak))
        return sorted(found, key=lambda mention: mention.first)
