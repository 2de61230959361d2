"""Checks that cited papers are in the library, and that they support the citing sentence."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from hpcscientist.papers.walls.finding import SentenceDefect, words
from hpcscientist.papers.walls.sentences import HOLE, Sentence
from hpcscientist.records.literature import Paper
from hpcscientist.records.manuscript import Citation, DefectCode, Support

_SHORTEST_QUOTE = 4  # words
_OVERLAP = 0.45  # least share of the sentence's distinctive words that the quotation has
_KNOWN = 0.5  # least share of them that the paper's record has
_UNKNOWN = 3  # most words that the record may lack
_STOP = frozenset(
    words(
        """
        a about above after all also an and any are as at be been before being both but by can
        could did do does each for from further had has have how if in into is it its itself may
        might more most must no nor not of on once only or other our out over own same shall she
        should so some such than that the their them then there these they this those through to
        too under until up use used uses using very via was we well were what when where which
        while who whom why will with within without would yet show shows shown showed study
        studies studied work works paper papers method methods approach approaches propose
        proposes proposed introduce introduces introduced known report reports reported find
        finds found finding e.g i.e et al see prior earlier recent standard new
        """
    )
)
_OPPOSITES = (
    ("improv", "degrad"), ("improv", "hurt"), ("improv", "harm"), ("improv", "worsen"),
    ("help", "hurt"), ("eas", "hinder"), ("increas", "decreas"), ("increas", "reduc"),
    ("rais", "lower"), ("prevent", "caus"), ("reduc", "caus"), ("need", "unnecessar"),
    ("few", "many"), ("fast", "slow"), ("better", "worse"), ("benefi", "harm"),
)  # fmt: skip
_NEGATIONS = frozenset(words("not no never neither nor without unnecessary cannot fails fail lack"))
_AUTHORS = re.compile(
    r"\b([A-Z][\w\u00c0-\u024f'-]+)(?:\s+(?:and|&)\s+([A-Z][\w\u00c0-\u024f'-]+)|\s+et\s+al\.?)"
    r"(?:\s*[\(\[]?\s*((?:19|20)\d\d)[a-z]?\s*[\)\]]?)?"
    r"|\b([A-Z][\w\u00c0-\u024f'-]+)\s*\(((?:19|20)\d\d)[a-z]?\)"
)


# Every paper of the field has these stems, so sharing them with a quotation shows nothing.
_GENERIC = frozenset(
    words(
        "learn train network model data task result perform neural deep exampl rat gradi comput "
        "experiment layer set optim dataset machin descent stochast"
    )
)


class PaperLookup(Protocol):
    """A place to look up papers, such as a library."""

    def paper(self, paper_id: str) -> Paper | None:
        """Return a paper's full record, or None."""
        ...


@dataclass(slots=True)
class CitationWall:
    """A check of citations against the library and the quotations that support them."""

    papers: PaperLookup
    supports: Sequence[Support]

    def years(self, sentence: Sentence) -> set[int]:
        """Return the years of the papers that a sentence cites; these may be typed there."""
        cited = filter(None, map(self.papers.paper, sentence.citations))
        return {paper.year for paper in cited if paper.year is not None}

    def check(self, sentence: Sentence) -> Iterator[SentenceDefect]:
        """Yield the defects of a sentence's citations."""
        for paper_id in sentence.citations:
            paper = self.papers.paper(paper_id)
            if paper is None:
                yield SentenceDefect(
                    DefectCode.UNKNOWN_PAPER, f"[@{paper_id}]", "cite a paper of the library"
                )
                continue
            yield from self._supported(sentence, paper)
        yield from self._named(sentence)

    def _supported(self, sentence: Sentence, paper: Paper) -> Iterator[SentenceDefect]:
        about = plain_sentence(sentence)
        own = [s for s in self.supports if s.paper_id == paper.paper_id]
        fitting = [s for s in own if _similar(_plain(s.sentence), about)]
        marked = f"[@{paper.paper_id}]"
        if not fitting:
            yield SentenceDefect(
                DefectCode.UNSUPPORTED_CITATION,
                marked,
                "give the words of the paper that support this sentence",
            )
            return
        why = ""
        for support in fitting:
            why = misfit(self._claimed(sentence, paper), support.quote, paper)
            if not why:
                return
        yield SentenceDefect(DefectCode.UNSUPPORTED_CITATION, marked, why)

    def _claimed(self, sentence: Sentence, paper: Paper) -> str:
        """Return the part of a sentence that a citation covers, from the citation before it on."""
        first, parts = 0, list[str]()
        for at, token in enumerate(sentence.tokens):
            part = token.ref.part if token.ref is not None else None
            if isinstance(part, Citation):
                if paper.paper_id in part.papers:
                    end = at
                    rest = [t for t in sentence.tokens[at + 1 :] if t.ref is not None]
                    if not rest:
                        end = len(sentence.tokens)
                    parts = [t.text for t in sentence.tokens[first:end] if t.ref is None]
                    break
                first = at + 1
        text = " ".join(parts)
        if len(telling(text)) < 3:
            text = plain_sentence(sentence)
        authors = {_plain(word) for author in paper.authors for word in author.split()}
        return " ".join(word for word in text.split() if _plain(word) not in authors)

    def _named(self, sentence: Sentence) -> Iterator[SentenceDefect]:
        """Check named authors and years against the papers cited in the same sentence."""
        cited = [p for p in map(self.papers.paper, sentence.citations) if p is not None]
        for match in _AUTHORS.finditer(sentence.text):
            names = [name for name in (match[1], match[2], match[4]) if name]
            if any(name.lower() in _NO_NAMES for name in names):
                continue
            if not cited:
                yield SentenceDefect(
                    DefectCode.UNKNOWN_PAPER,
                    match[0],
                    "cite the paper of the library, as [@paper-id]; papers are not cited by name",
                )
                return
            year = int(match[3] or match[5]) if match[3] or match[5] else None
            fits = [
                paper
                for paper in cited
                if all(_is_author(name, paper) for name in names) and year in (None, paper.year)
            ]
            if not fits:
                yield SentenceDefect(
                    DefectCode.UNSUPPORTED_CITATION,
                    match[0],
                    f"the paper cited is by {', '.join(cited[0].authors[:3])} ({cited[0].year})",
                )


_NO_NAMES = frozenset(words("the this that these those training validation table figure section"))


def misfit(sentence: str, quote: str, paper: Paper) -> str:
    """Return why a quotation does not support a sentence; "" if it does.

    The quotation must be in the paper's record, share enough distinctive words with the sentence,
    and not deny what the sentence affirms. Most other distinctive words of the sentence must be in
    the record.
    """
    record, quoted = _plain(_record(paper)), _plain(quote)
    if len(quoted.split()) < _SHORTEST_QUOTE:
        return f"quote at least {_SHORTEST_QUOTE} words of the paper"
    if quoted not in record:
        return "the quotation is not in the paper's record: quote its own words"
    said = telling(sentence)
    if why := _off_topic(said, telling(quote), telling(_record(paper))):
        return why
    denies = {_denies(quote), _denies(_around(record, quoted))}
    if said and _denies(sentence) not in denies:
        return "the sentence denies what the paper says, or the other way round"
    opposite = _opposite(sentence, quote)
    return f"the paper says {opposite}" if opposite else ""


def _off_topic(said: set[str], quoted: set[str], known: set[str]) -> str:
    """Return what a sentence says that the quotation or the paper's record lacks, or ""."""
    special = said - _GENERIC or said
    if len(special & quoted) < _OVERLAP * len(special):
        lacking = ", ".join(sorted(special - quoted)[:4])
        return f"the quotation says nothing of {lacking}: quote what supports the sentence"
    unknown = sorted(said - known)
    if len(said & known) < _KNOWN * len(said) or len(unknown) > _UNKNOWN:
        return f"the paper's record says nothing of {', '.join(unknown[:4])}"
    return ""


def plain_sentence(sentence: Sentence) -> str:
    """Return a sentence's words without references and punctuation."""
    return _plain(sentence.text.replace(HOLE, " "))


def telling(text: str) -> set[str]:
    """Return the stems of a text's distinctive words."""
    found = (_stem(word) for word in _plain(text).split())
    return {
        stem for stem in found if len(stem) > 2 and stem not in _STEMMED_STOP and not stem.isdigit()
    }


def _record(paper: Paper) -> str:
    parts = [paper.title, paper.abstract, *(s.text for s in paper.sections)]
    return " . ".join(part for part in parts if part)


def _plain(text: str) -> str:
    """Return a text's words in lower case and without accents, separated by single blanks."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    folded = "".join(c for c in folded if not unicodedata.combining(c)).replace("\u00ad", "")
    folded = re.sub(r"\[[@#][^\]]*\]|\{[^}]*\}", " ", folded)
    return " ".join(re.findall(r"[^\W_]+", folded))


def _similar(one: str, other: str) -> bool:
    """Return whether two sentences differ in a few words at most, since a writer may polish one."""
    if one == other or (one and one in other) or (other and other in one):
        return True
    a, b = set(one.split()), set(other.split())
    return len(a & b) >= 0.8 * max(len(a), len(b), 1)


def _stem(word: str) -> str:
    for ending in ("isation", "ization", "ations", "ation", "ities", "ings", "ing", "ies", "ers",
                   "es", "ed", "er", "ly", "s", "e"):  # fmt: skip
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


_STEMMED_STOP = frozenset(_stem(word) for word in _STOP) | _STOP


def _denies(text: str) -> bool:
    return bool(set(_plain(text).split()) & _NEGATIONS)


def _around(record: str, quoted: str) -> str:
    at = record.index(quoted)
    return record[max(0, at - 12) : at + len(quoted)]


def _opposite(sentence: str, quote: str) -> str:
    said, theirs = set(_plain(sentence).split()), set(_plain(quote).split())
    for one, other in _OPPOSITES:
        for a, b in ((one, other), (other, one)):
            has_a = any(w.startswith(a) for w in said)
            has_b = any(w.startswith(b) for w in theirs)
            same = any(w.startswith(a) for w in theirs) or any(w.startswith(b) for w in said)
            if has_a and has_b and not same:
                return next(w for w in sorted(theirs) if w.startswith(b))
    return ""


def _is_author(name: str, paper: Paper) -> bool:
    wanted = _plain(name)
    return any(
        wanted in _plain(author).split() or wanted == _plain(author) for author in paper.authors
    )
