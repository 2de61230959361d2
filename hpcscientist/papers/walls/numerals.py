"""Finds typed numbers: digits of any script, number words, fractions, Roman numerals.

Only listed names may contain a number: names in the recipe, in cited papers' titles and in ideas'
titles, and terms such as "one-sided". A year may be typed beside a citation of that year.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from hpcscientist.papers.walls.finding import words

_ONES = words(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen
    """
)
_TENS = words(
    """
    twenty thirty forty fourty fifty sixty seventy eighty ninety
    """
)
_LARGE = words(
    """
    hundred thousand million billion trillion quadrillion googol myriad lakh crore
    """
)
_ORDINALS = words(
    """
    third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
    fifteenth sixteenth seventeenth eighteenth nineteenth twentieth thirtieth fortieth fiftieth
    sixtieth seventieth eightieth ninetieth hundredth thousandth millionth billionth
    """
)
_SHARES = words(
    """
    half halve halved halves halving quarter quartile quintile decile percentile
    """
)
_TIMES = words(
    """
    twice thrice double doubled doubles doubling redouble redoubled triple tripled triples
    tripling treble trebled quadruple quadrupled quadruples quadrupling quintuple quintupled
    sextuple octuple single
    """
)
_GROUPS = words(
    """
    dozen couple pair trio quartet quintet duo score handful decade nil nought naught zilch
    umpteen majority minority most mostly plurality percent percentage
    """
)
_CARDINALS = frozenset([*_ONES, *_TENS, *_LARGE])
_WORDS = _CARDINALS | frozenset([*_ORDINALS, *_SHARES, *_TIMES, *_GROUPS])
_COMPOUND = re.compile(
    rf"(?:{'|'.join(sorted([*_CARDINALS, *_ORDINALS], key=len, reverse=True))}|half|double|triple)"
    r"(?:and)?"
)
_FOLD = re.compile(r"(.+?)-?folds?$")
# These are counts, too, if they are said of things that a campaign counts.
_VAGUE = frozenset(
    {"several", "many", "few", "fewer", "numerous", "countless", "plenty", "various", "multiple"}
)
_COUNTED = words(
    """
    idea ideas seed seeds trial trials run runs attempt attempts round rounds version versions
    experiment experiments improvement improvements candidate candidates proposal proposals
    """
)
# Terms that contain a number word but count nothing.
_TERMS = words(
    """
    one-sided two-sided one-tailed two-tailed one-hot one-to-one one-way zero-mean zero-padded
    zero-padding zero-shot one-shot few-shot non-zero nonzero zero-centred zero-centered
    first-order second-order third-order half-width half-precision single-precision
    double-precision double-blind single-blind third-party second-hand k-nearest two-sample
    one-sample two-way zero-initialised zero-initialized secondary quarterly pairwise paired
    single-threaded
    """
)
_TERM_PHRASES = (
    ("zero", "padding"),
    ("null", "hypothesis"),
    ("half", "precision"),
    ("single", "machine"),
    ("single", "precision"),
    ("double", "precision"),
    ("double", "check"),
    ("no", "one"),
    ("one", "another"),
    ("the", "one", "that"),
    ("the", "one", "hand"),
    ("on", "one", "hand"),
    ("this", "one"),
    ("one", "can"),
    ("one", "may"),
    ("one", "must"),
    ("one", "should"),
    ("one", "would"),
    ("one", "might"),
    ("one", "could"),
    ("percentage", "points"),
    ("percentage", "point"),
    ("third", "party"),
    ("at", "most"),
    ("per", "second"),
)
_UNITS_AFTER = frozenset({"percent", "percentage"})
_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
# Abbreviations that are Roman numerals by accident.
_NO_ROMAN = frozenset(
    [
        "CI",
        "CV",
        "MC",
        "MD",
        "DC",
        "CD",
        "MI",
        "DI",
        "LI",
        "CL",
        "MM",
        "LV",
        "ML",
        "DL",
        "MIX",
        "DIM",
        "CM",
        "MV",
        "XX",
        "XXX",
    ]
)
_LOOKALIKE = re.compile(r"(?=.*[OIl|])(?:[OoIlSBZ|]+[.,:][OoIlSBZ|]+|(?=.*O)[OIl|]{2,})")
_NO_LOOKALIKE = frozenset({"IO", "OO", "Ol"})
_TRANSPOSED = str.maketrans("01345678", "oieasbtb")
_WORD = re.compile(r"[^\W_]+(?:[-'\u2019.\u2010\u2011/][^\W_]+)*")
_PARTS = re.compile(
    r"\b(?:bulk|lion's share) of\b"
    r"|\b(?:large|small|great|vast|considerable|substantial|sizeable|good)"
    r" (?:fraction|part|share|number|proportion|percentage) of\b|\ba fraction of\b",
    re.IGNORECASE,
)
_SPACED = re.compile(r"(?<!\w)(?:\w[\s.\-\u00b7_]){2,}\w(?!\w)")


@dataclass(frozen=True, slots=True)
class Typed:
    """A typed number: its place in the text, and its value if it has one."""

    found: str
    start: int
    value: float | None = None


def typed_numbers(text: str, names: Iterable[str], years: Collection[int]) -> list[Typed]:
    """Return the typed numbers of a text.

    `names` may contain numbers; `years` are those of papers cited in the same sentence.
    """
    masked = mask(text, names)
    found = [*_digits(masked, years), *_words(masked), *_strange(masked)]
    kept: list[Typed] = []
    for one in sorted(found, key=lambda typed: (typed.start, -len(typed.found))):
        if not kept or one.start >= kept[-1].start + len(kept[-1].found):
            kept.append(one)
    return kept


def mask(text: str, names: Iterable[str]) -> str:
    """Return the text, of the same length, with each name replaced by blanks."""
    lower = text.lower()  # a cheap filter: of thousands of names, a text has next to none
    for name in sorted({n for n in names if n.lower() in lower}, key=len, reverse=True):
        # A name is a whole word: CIFAR-100 does not contain the name CIFAR-10.
        pattern = rf"(?<![\w.]){re.escape(name)}(?:['\u2019]s)?(?![\w]|[.,-]\d)"
        text = re.sub(pattern, lambda match: " " * len(match[0]), text, flags=re.IGNORECASE)
    return text


def _digits(text: str, years: Collection[int]) -> Iterator[Typed]:
    for match in re.finditer(r"\S+", text):
        run = match[0]
        places = [i for i, c in enumerate(run) if _is_digit(c)]
        if not places:
            continue
        plain = unicodedata.normalize("NFKC", run)
        year = re.fullmatch(r"\W*((?:19|20)\d\d)[a-z]?\W*", plain)
        if year and run.isascii() and int(year[1]) in years:
            continue
        start, end = places[0], places[-1] + 1
        while start > 0 and run[start - 1] in "+-\u2212.,\u00b1":
            start -= 1
        yield Typed(run[start:end], match.start() + start, _value(plain))


def _is_digit(character: str) -> bool:
    """Return whether a character is a number in any script, also after NFKC normalization."""
    if unicodedata.category(character)[0] == "N":
        return True
    if character.isascii():
        return False
    plain = unicodedata.normalize("NFKC", character)
    return plain != character and any(unicodedata.category(c)[0] == "N" for c in plain)


def _value(text: str) -> float | None:
    found = re.search(r"[-+\u2212]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?", text)
    if found is None:
        return None
    try:
        return float(found[0].replace(",", "").replace("\u2212", "-"))
    except ValueError:
        return None


def _words(text: str) -> Iterator[Typed]:
    tokens = [(match[0], match.start()) for match in _WORD.finditer(text)]
    lower = [word.lower().replace("\u2019", "'") for word, _ in tokens]
    skipped = _term_places(lower)
    for at, (word, start) in enumerate(tokens):
        if at in skipped or lower[at] in _TERMS:
            continue
        parts = [p for p in re.split(r"[-'.\u2010\u2011/]", _plain(lower[at])) if p]
        if any(_counts(part) for part in parts) and not _is_free(lower, at):
            yield Typed(word, start, _word_value(parts))
        elif _vague(lower, at) or _ordinal_second(lower, at):
            yield Typed(word, start)
        elif lower[at] in ("order", "orders") and lower[at + 1 : at + 3] == ["of", "magnitude"]:
            yield Typed(text[start : start + len("order of magnitude")], start)
        elif _is_roman(word, lower, at):
            yield Typed(word, start)


def _plain(word: str) -> str:
    """Return a word without accents and dotless letters, which could disguise number words."""
    decomposed = unicodedata.normalize("NFKD", word.replace("\u0131", "i"))
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def _counts(part: str) -> bool:
    """Return whether a word is a number word or is composed of number words."""
    stem = part
    for candidate in (
        part,
        part.removesuffix("s"),
        part.removesuffix("es"),
        part.removesuffix("ly"),
        re.sub("ies$", "y", part),
    ):
        if candidate in _WORDS:
            return True
    if fold := _FOLD.fullmatch(part):
        stem = fold[1]
        if _counts(stem):
            return True
    if re.fullmatch(rf"(?:{_COMPOUND.pattern}){{2,}}s?", stem):
        return True
    letters = stem.translate(_TRANSPOSED)
    return letters != stem and letters in _WORDS


def _is_free(lower: Sequence[str], at: int) -> bool:
    """Return whether a number word counts nothing at this place."""
    word, before = lower[at], lower[at - 1] if at else ""
    after = lower[at + 1] if at + 1 < len(lower) else ""
    following = lower[at + 2] if at + 2 < len(lower) else ""
    if word in ("score", "scores"):
        return after != "of" or not (before == "a" or following in _COUNTED)
    if word in ("pair", "pairs"):
        return before not in ("a", "one") or after != "of"
    if word == "most":  # a superlative, and no count
        return _is_superlative(after)
    if word in ("third", "fourth", "fifth"):  # enumerates
        return at == 0
    # A unit is checked against the fact beside it.
    return word in _UNITS_AFTER or word == "ones" or (word == "single" and after == "out")


def _is_superlative(after: str) -> bool:
    if not after or after in ("of", "the") or after in _COUNTED or after.endswith("s"):
        return False
    return bool(
        re.search(r"(?:al|ive|ful|ous|ing|ed|ly|able|ible|ic|ant|ent|ar|ate|ure|on|ct)$", after)
    )


def _ordinal_second(lower: Sequence[str], at: int) -> bool:
    """Return whether "second" is an ordinal ("the second idea"), not a unit or an enumeration."""
    if lower[at] != "second" or at == 0:
        return False
    return lower[at - 1] in ("the", "a", "every", "each", "its", "their")


def _vague(lower: Sequence[str], at: int) -> bool:
    if lower[at] not in _VAGUE or (at and lower[at - 1] in ("how", "as", "so", "too")):
        return False
    return bool(set(_COUNTED) & set(lower[at + 1 : at + 5]))


def _is_roman(word: str, lower: Sequence[str], at: int) -> bool:
    if len(word) < 2 or word in _NO_ROMAN:
        return False
    if word.islower() and set(word) <= set("ivx"):
        return bool(_ROMAN.fullmatch(word.upper()))
    return word.isupper() and word.isascii() and bool(_ROMAN.fullmatch(word))


def _word_value(parts: Sequence[str]) -> float | None:
    simple = {
        "twice": 2.0,
        "double": 2.0,
        "doubled": 2.0,
        "half": 0.5,
        "dozen": 12.0,
        "third": 1 / 3,
    }
    if len(parts) == 1:
        if parts[0] in simple:
            return simple[parts[0]]
        if parts[0] in _ONES:
            return float(_ONES.index(parts[0]))
    return None


def _strange(text: str) -> Iterator[Typed]:
    """Yield shares in words, letters that look like digits, and spaced-out number words."""
    for match in _PARTS.finditer(text):
        yield Typed(match[0], match.start())
    for match in _SPACED.finditer(text):
        joined = re.sub(r"\W|_", "", match[0]).lower()
        if any(_counts(joined[i:]) or _counts(joined[: len(joined) - i]) for i in (0, 1)):
            yield Typed(match[0], match.start())
    for match in re.finditer(r"[\w|]+(?:[.,:][\w|]+)*", text):
        if match[0] not in _NO_LOOKALIKE and _LOOKALIKE.fullmatch(match[0]):
            yield Typed(match[0], match.start())


def _term_places(lower: Sequence[str]) -> set[int]:
    places: set[int] = set()
    for phrase in _TERM_PHRASES:
        for first in range(len(lower) - len(phrase) + 1):
            if tuple(lower[first : first + len(phrase)]) == phrase:
                places.update(range(first, first + len(phrase)))
    return places


def foreign_letters(text: str) -> list[str]:
    """Return the words with letters of other scripts, such as Cyrillic letters that look Latin.

    A single Greek letter is a symbol and is allowed.
    """
    found: list[str] = []
    for match in re.finditer(r"[^\W\d_]+", text):
        scripts = {_script(character) for character in match[0] if character.isalpha()}
        if scripts - {"LATIN", "GREEK", "MICRO"} or ("GREEK" in scripts and len(match[0]) > 1):
            found.append(match[0])
    return found


def _script(character: str) -> str:
    return unicodedata.name(character, "?").split()[0]
