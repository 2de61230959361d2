"""Offers sentences of the library's papers to the writer, each with an id to cite it by.

A citation names a sentence: `[@bishop1995#2]` is the second sentence of that paper. So the support
is always in the paper's own words, and a model that replies by a schema cannot invent it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hpcscientist.files.text import visible
from hpcscientist.models.prompting.naming import found_ids
from hpcscientist.models.prompting.prompts import line
from hpcscientist.ports import Library
from hpcscientist.records.literature import Paper
from hpcscientist.records.manuscript import Citation, Emphasis, Inline, Line, Support

_ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z(\"“])|\n\s*\n")
_WORD = re.compile(r"[^\W\d_]{3,}")
_SHORTEST, _LONGEST = 5, 80  # words of a sentence that can be a support
_OF_ABSTRACT, _OF_TEXT = 10, 6  # offered sentences of one paper
_TITLE, _SENTENCE = 200, 600  # characters in prompts


@dataclass(frozen=True, slots=True)
class Offered:
    """A paper as offered to the writer: `key` is its citation key; `sentences` count from 1."""

    key: str
    paper_id: str
    title: str
    year: int | None
    sentences: tuple[str, ...]

    def ids(self) -> tuple[str, ...]:
        """Return the ids of its sentences."""
        return tuple(f"{self.key}#{number}" for number in range(1, len(self.sentences) + 1))

    @property
    def name(self) -> str:
        """Title and year, as prompts show them."""
        year = f" ({self.year})" if self.year else ""
        return f"{line(self.title, _TITLE)}{year}"

    def lines(self) -> tuple[str, ...]:
        """Return its sentences with their ids, as prompts show them."""
        named = zip(self.ids(), self.sentences, strict=True)
        return tuple(f"[@{name}] {line(sentence, _SENTENCE)}" for name, sentence in named)


@dataclass(slots=True)
class FoundPapers:
    """The papers found for a manuscript, by key, in order of discovery."""

    library: Library | None
    papers: dict[str, Offered] = field(default_factory=dict)
    kept: dict[str, tuple[str, ...]] = field(default_factory=dict)  # ids of sentences by section
    uses: dict[str, str] = field(default_factory=dict)  # purpose of each sentence by id

    def offer(self, paper_ids: Iterable[str], query: str) -> tuple[Offered, ...]:
        """Add papers and return those that are new, each with the sentences that can be cited."""
        known = {paper.paper_id for paper in self.papers.values()}
        found = list[Offered]()
        for paper_id in paper_ids:
            paper = self.library.paper(paper_id) if self.library is not None else None
            if paper is None or paper.paper_id in known:
                continue
            known.add(paper.paper_id)
            if sentences := tuple(_chosen(paper, query)):
                key = self._key(paper)
                new = Offered(key, paper.paper_id, paper.title, paper.year, sentences)
                self.papers[key] = new
                found.append(new)
        return tuple(found)

    def keep(self, evidence_id: str, section: str, use: str) -> bool:
        """Keep a sentence for a section; return False if its id is unknown."""
        found = found_ids([evidence_id.removeprefix("@")], self.sentences())
        if not found:
            return False
        self.kept[section] = tuple(dict.fromkeys((*self.kept.get(section, ()), *found)))
        self.uses.setdefault(found[0], use)
        return True

    def sentences(self) -> dict[str, str]:
        """Return all sentences by their ids."""
        return {
            name: sentence
            for paper in self.papers.values()
            for name, sentence in zip(paper.ids(), paper.sentences, strict=True)
        }

    def shown(self, section: str | None = None) -> tuple[str, ...]:
        """Return the kept sentences as prompts show them, those kept for `section` first."""
        texts = self.sentences()
        first = self.kept.get(section, ()) if section else ()
        every = (name for names in self.kept.values() for name in names)
        return tuple(
            f"[@{name}] {line(texts[name], _SENTENCE)} (Kept for: {self.uses[name]})"
            for name in dict.fromkeys((*first, *every))
        )

    def resolved(self, parts: Line) -> tuple[Line, tuple[tuple[str, str], ...]]:
        """Return a text whose citations name papers by id, and the (paper, sentence) pairs cited.

        A key without a sentence means the kept sentence that shares most words with the text. An
        unknown key stays as it is, so that the check of the manuscript reports it.
        """
        cited = list[tuple[str, str]]()

        def of(part: Inline) -> Inline:
            if isinstance(part, Emphasis):
                inner = tuple(of(inner) for inner in part.parts)
                return Emphasis(parts=inner)  # type: ignore[arg-type]  # none is an emphasis
            if not isinstance(part, Citation):
                return part
            papers = list[str]()
            for name in part.papers:
                paper_id, quote = self._meant(name, parts)
                papers.append(paper_id)
                if quote:
                    cited.append((paper_id, quote))
            return Citation(papers=tuple(dict.fromkeys(papers)))

        return tuple(of(part) for part in parts), tuple(dict.fromkeys(cited))

    def as_cited(self, text: str, supports: Iterable[Support]) -> str:
        """Return a text with its citations as the writer gave them: by key and sentence."""
        keys = {paper.paper_id: paper for paper in self.papers.values()}
        names: dict[str, dict[str, list[str]]] = {}
        for support in supports:
            paper = keys[support.paper_id]
            number = paper.sentences.index(support.quote) + 1
            of = names.setdefault(support.sentence, {}).setdefault(support.paper_id, [])
            of.append(f"@{paper.key}#{number}")
        for sentence, ids in names.items():
            given = sentence
            for paper_id, keys_of in ids.items():
                whole = rf"@{re.escape(paper_id)}(?=[\s;\]])"  # not a longer id with this prefix
                given = re.sub(whole, "; ".join(keys_of), given)
            text = text.replace(sentence, given)
        return text

    def _meant(self, name: str, around: Line) -> tuple[str, str]:
        texts = self.sentences()
        by_id = {paper.paper_id: paper.key for paper in self.papers.values()}
        if exact := found_ids([name], texts):
            return self.papers[exact[0].rpartition("#")[0]].paper_id, texts[exact[0]]
        bare = name if name in by_id else name.partition("#")[0]
        key = by_id.get(bare) or next(iter(found_ids([bare], self.papers)), None)
        if key is None:
            return name, ""
        paper = self.papers[key]
        said = _words("".join(map(str, around)))
        kept = [texts[k] for names in self.kept.values() for k in names if k in paper.ids()]
        best = max(kept or paper.sentences, key=lambda text: len(_words(text) & said))
        return paper.paper_id, best

    def _key(self, paper: Paper) -> str:
        base = f"{_surname(paper)}{paper.year or ''}"
        tries = (base, *(f"{base}{chr(97 + n)}" for n in range(26)))
        return next((k for k in tries if k not in self.papers), f"{base}x{len(self.papers)}")


def _chosen(paper: Paper, query: str) -> Iterator[str]:
    """Yield the sentences to offer: a paper's abstract, and the text's nearest to the query."""
    yield from sentences_of(paper.abstract)[:_OF_ABSTRACT]
    wanted = _words(query)
    rest = [s for section in paper.sections for s in sentences_of(section.text)]
    near = sorted(range(len(rest)), key=lambda n: (-len(_words(rest[n]) & wanted), n))
    for place in sorted(near[:_OF_TEXT]):
        yield rest[place]


def sentences_of(text: str) -> Sequence[str]:
    """Return the sentences of a text, unchanged except for white space.

    A sentence with invisible characters is left out, as it could not be quoted the way it looks.
    """
    parts = (part.split() for part in _ENDS.split(text) if visible(part) == part)
    return [" ".join(words) for words in parts if _SHORTEST <= len(words) <= _LONGEST]


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _surname(paper: Paper) -> str:
    if not paper.authors:
        return re.sub(r"[^a-z]", "", paper.title.split()[0].lower()) or "paper"
    first = paper.authors[0]
    last = first.partition(",")[0] if "," in first else first.split()[-1] if first.split() else ""
    plain = unicodedata.normalize("NFKD", last).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z]", "", plain) or "paper"
