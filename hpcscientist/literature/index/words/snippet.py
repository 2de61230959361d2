"""The place in a paper that fits a query best, for people to see."""

from __future__ import annotations

from hpcscientist.literature.index.words.fields import body
from hpcscientist.models.embedding.words import spans, telling, words
from hpcscientist.records.known.literature import Paper

WIDTH = 200  # characters
_BODY = 20_000  # of a paper's text that is looked at where its abstract has none of the words


def snippet(paper: Paper, query: str, width: int = WIDTH) -> str:
    """Return a piece of a paper's text with as many different words of a query as possible.

    From the abstract if it has any of them, else from the text, else how the abstract begins.
    """
    wanted = frozenset(telling(query) or words(query))
    for text in (paper.abstract, body(paper)[:_BODY]):
        found = _best(text, wanted, width)
        if found:
            return found
    return _cut(paper.abstract or body(paper)[:_BODY], 0, width)


def _best(text: str, wanted: frozenset[str], width: int) -> str:
    """Return the piece with the most different words; the first on a tie; "" without any."""
    hits = [(start, end, terms & wanted) for start, end, terms in spans(text) if terms & wanted]
    best, most, first = 0, 0, 0
    for last, (_, end, _) in enumerate(hits):
        while end - hits[first][0] > width and first < last:
            first += 1
        there = len(frozenset().union(*(terms for _, _, terms in hits[first : last + 1])))
        if there > most:
            most, best = there, hits[first][0]
    return _cut(text, best, width) if hits else ""


def _cut(text: str, start: int, width: int) -> str:
    """Return `width` characters around what begins at `start`, with whole words at the ends."""
    begin = max(0, min(start - width // 4, len(text) - width))
    if begin:
        space = text.find(" ", begin, start)
        begin = begin if space < 0 else space + 1
    end = min(len(text), begin + width)
    if end < len(text):
        space = text.rfind(" ", start + 1, end)
        end = end if space < 0 else space
    piece = " ".join(text[begin:end].split())
    return f"{'… ' if begin else ''}{piece}{' …' if end < len(text) else ''}"
