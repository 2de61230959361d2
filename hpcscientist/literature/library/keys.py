"""Decides whether two records are the same paper: by hashes of ids and title, then by details.

Among all papers only 64-bit hashes are compared: with ten million keys, the chance that two
different ones collide is one in a few hundred thousand.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from hashlib import blake2b

from hpcscientist.literature.sources.ids import normal_arxiv, normal_doi, normal_title, paper_id
from hpcscientist.records.literature import Paper

# A shorter title, such as "Introduction" or "Deep learning", may belong to many papers.
TELLING_BYTES = 16
# A preprint and its publication are at most this far apart, two editions of a book further.
YEARS_APART = 5
_GENERATIONS = frozenset({"jr", "sr", "ii", "iii", "iv"})


def key(text: str) -> int:
    """Return the 64-bit hash of an id, such as "doi:10.1000/x"."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")


def plain_id(text: str) -> str:
    """Return an id in canonical spelling: lower case, no version, arXiv's own for its DOIs."""
    kind, _, rest = text.partition(":")
    if kind == "doi" and normal_doi(rest):
        return paper_id("", doi=rest)
    if kind == "arxiv" and normal_arxiv(rest):
        return f"arxiv:{normal_arxiv(rest)}"
    return text


def ids(paper: Paper) -> list[str]:
    """Return all ids of a paper in canonical spelling, its own first."""
    found = [plain_id(paper.paper_id)]
    found += [plain_id(f"doi:{paper.doi}")] if paper.doi else []
    found += [plain_id(f"arxiv:{paper.arxiv_id}")] if paper.arxiv_id else []
    return list(dict.fromkeys(found))


def id_keys(paper: Paper) -> list[int]:
    """Return the hashes of a paper's ids, and of the address that links separate abstracts."""
    whole = [key(text) for text in ids(paper)]
    by_address = paper.source == "semantic_scholar" and paper.url
    return [*whole, address_key(paper.url)] if by_address else whole


def address_key(url: str) -> int:
    """Return the hash of a paper's address in a catalogue."""
    return key(f"url={url}")


def title_key(title: str) -> int:
    """Return the hash of a normalised title; 0 if nothing is left of it."""
    normal = normal_title(title)
    return key(f"title={normal}") if normal else 0


def same_paper(one: Paper, other: Paper) -> bool:
    """Return whether two papers with the same normalised title are one, by their other metadata."""
    if one.arxiv_id and other.arxiv_id and plain_id(f"arxiv:{one.arxiv_id}") not in ids(other):
        return False
    if one.year and other.year and abs(one.year - other.year) > YEARS_APART:
        return False
    names, others = surnames(one.authors), surnames(other.authors)
    if names and others:
        return bool(names & others)
    return len(normal_title(one.title).encode("utf-8", "replace")) >= TELLING_BYTES


def surnames(authors: Sequence[str]) -> frozenset[str]:
    """Return the authors' surnames: the last word, or the last before a comma; no initials."""
    found: set[str] = set()
    for author in authors:
        words = author.partition(",")[0].split()
        words = [w for w in words if not _adds_nothing(w)] or words
        found.update(normal_title(_bare(word)) for word in words[-1:])
    return frozenset(found - {""})


def _adds_nothing(word: str) -> bool:
    letters = "".join(c for c in word if c.isalpha())
    return (len(letters) <= 2 and letters.isupper()) or letters.casefold() in _GENERATIONS


def _bare(word: str) -> str:
    """Return a word without accents, which half of all sources have lost."""
    parts = unicodedata.normalize("NFD", word)
    return "".join(c for c in parts if not unicodedata.combining(c))
