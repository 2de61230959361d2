"""Ids of papers: as far as possible, one paper has one id, whichever source it came from.

A DOI is preferred over an arXiv id, that over an id of Semantic Scholar or OpenAlex. The last
resort is a hash of title, year and first author. A DOI that arXiv issued (10.48550/arXiv.…) becomes
an arXiv id.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from urllib.parse import unquote

_DOI = re.compile(r"10\.\d{4,9}(?:\.\d+)*/[^\s\"<>]+")
_DOI_PREFIX = re.compile(r"(?:https?://)?(?:(?:dx|www)\.)?doi\.org/|doi:\s*", re.IGNORECASE)
_ARXIV_DOI = re.compile(r"10\.48550/arxiv\.(.+)")
_NEW_ARXIV = r"\d\d(?:0[1-9]|1[0-2])\.\d{4,5}"
_OLD_ARXIV = r"[a-z]+(?:-[a-z]+)*(?:\.[a-z]{2})?/\d\d(?:0[1-9]|1[0-2])\d{3}"
_ARXIV_PREFIX = re.compile(
    r"(?:https?://)?(?:[a-z]+\.)?arxiv\.org/(?:abs|pdf|html|e-print|src|format)/"
    r"|(?:https?://)?(?:dx\.)?doi\.org/10\.48550/arxiv\.|10\.48550/arxiv\."
    r"|oai:arxiv\.org:|arxiv\s*:\s*|arxiv\s+",
    re.IGNORECASE,
)
_ARXIV = re.compile(rf"({_NEW_ARXIV}|{_OLD_ARXIV})(?:v\d+)?(?:\.pdf)?", re.IGNORECASE)
_FIRST_YEAR_OF_ARXIV = 91


def normal_doi(text: str) -> str:
    """Return the DOI in a text, in lower case and without prefix; "" if there is none.

    DOIs are case-insensitive (DOI Handbook, 2.4). Punctuation after a DOI at the end of a sentence
    is left out.
    """
    bare = _DOI_PREFIX.sub("", text.strip())
    found = _DOI.search(unquote(bare) if "%2f" in bare.lower() else bare)
    if found is None:
        return ""
    doi = _without_end(found.group())
    return doi.encode("utf-8", "replace").lower().decode() if _DOI.fullmatch(doi) else ""


def _without_end(doi: str) -> str:
    while doi and (
        doi[-1] in ".,;:'"
        or (doi[-1] in ")]}" and doi.count(doi[-1]) > doi.count(_OPENING[doi[-1]]))
    ):
        doi = doi[:-1]
    return doi


_OPENING = {")": "(", "]": "[", "}": "{"}


def normal_arxiv(text: str) -> str:
    """Return an arXiv id without version, subject class and prefix; "" if the text is none.

    The text must be an id, an arXiv URL, or an id after "arXiv:".
    """
    found = _ARXIV.fullmatch(_ARXIV_PREFIX.sub("", text.strip(), count=1))
    if found is None:
        return ""
    number = found.group(1).lower()
    archive, slash, rest = number.partition("/")
    return f"{archive.partition('.')[0]}/{rest}" if slash else number


def find_arxiv(text: str) -> str:
    """Return the first arXiv id that running text marks as one ("arXiv:…"); "" if none."""
    for prefix in _ARXIV_PREFIX.finditer(text):
        found = _ARXIV.match(text, prefix.end())
        if found is not None:
            return normal_arxiv(found.group())
    return ""


def arxiv_year(arxiv_id: str) -> int | None:
    """Return the year in which arXiv assigned an id; None for no id."""
    found = re.search(r"(?:^|/)(\d\d)", arxiv_id)
    if found is None:
        return None
    year = int(found.group(1))
    return 1900 + year if year >= _FIRST_YEAR_OF_ARXIV else 2000 + year


def normal_title(title: str) -> str:
    """Return a title in the form used to compare titles: letters, marks and digits of any script.

    NFKC and case folding apply, so that "ﬁ" equals "fi" and "Straße" equals "STRASSE". A title of
    symbols alone only loses its white space.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", title).casefold())
    kept = "".join(c for c in folded if unicodedata.category(c)[0] in "LMN")
    return unicodedata.normalize("NFC", kept) or "".join(folded.split())


def title_id(title: str, year: int | None = None, authors: Sequence[str] = ()) -> str:
    """Return an id for a paper that has no other: "title:" and a hash."""
    parts = (normal_title(title), str(year or ""), _family_name(authors[0]) if authors else "")
    text = "\0".join(parts).encode("utf-8", "replace")
    return "title:" + hashlib.sha256(text).hexdigest()[:24]


def _family_name(author: str) -> str:
    family, comma, _ = author.partition(",")
    words = author.split()
    return normal_title(family if comma else words[-1] if words else "")


def paper_id(
    title: str,
    year: int | None = None,
    authors: Sequence[str] = (),
    *,
    doi: str = "",
    arxiv_id: str = "",
    other: str = "",
) -> str:
    """Return a paper's id from its known metadata.

    `doi` and `arxiv_id` may have any of their spellings; `other` is an id with its prefix
    ("s2:…", "openalex:…").
    """
    known_doi = normal_doi(doi)
    own = _ARXIV_DOI.fullmatch(known_doi)
    known_arxiv = normal_arxiv(arxiv_id) or (normal_arxiv(own.group(1)) if own else "")
    if known_doi and not (own and known_arxiv):
        return f"doi:{known_doi}"
    if known_arxiv:
        return f"arxiv:{known_arxiv}"
    return other or title_id(title, year, authors)
