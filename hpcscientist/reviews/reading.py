"""Reads a paper that is longer than a model's context by parts; nothing is cut.

Parts end at paragraphs. The same model reads each part whole and writes notes that keep claims,
methods and numbers; the notes replace the paper. If the notes are too long too, they are read by
parts in the same way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field

from hpcscientist.errors import ReplyError
from hpcscientist.files.atomic import write_json
from hpcscientist.files.handed import read_regular
from hpcscientist.literature.material import together
from hpcscientist.models.prompting.fitting import Prompt, of_template
from hpcscientist.models.role_client import CallPurpose, RoleClient
from hpcscientist.records.base import Prose, Record
from hpcscientist.reviews.paper import PaperText

PARTS: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_DEEPEST: Final = 3  # levels of notes: notes on notes on notes
_ORDINALS: Final = 1000  # ordinals reserved for one level
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")


class NotesReply(Record):
    """The reply schema of stage `read`: notes on one part of a paper."""

    summary: Prose = Field(min_length=1)
    claims: tuple[Prose, ...] = ()
    methods: tuple[Prose, ...] = ()
    results: tuple[Prose, ...] = ()
    concerns: tuple[Prose, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """The text that reviewers are shown: the paper, or notes on its `parts` parts."""

    text: str
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Subject:
    """What calls are about: an id, and the number that playbooks and seeds know it by."""

    name: str
    number: int


Ask = tuple[type[BaseModel], Prompt]


class PaperReader:
    """A reader that fits a paper into a model's context.

    `record` keeps the number of parts, so that a resumed run reads the same parts even if it now
    counts tokens differently.
    """

    def __init__(self, client: RoleClient, subject: Subject, record: Path, first: int = 1) -> None:
        self._client, self._subject, self._record, self._first = client, subject, record, first

    async def shown(self, paper: PaperText, ask: Callable[[Shown], Ask]) -> Shown:
        """Return the paper in a form that fits into the prompt that `ask` makes of it.

        Raises ReplyError if it cannot be made to fit, and what asking a model raises.
        """
        whole = Shown(paper.text)
        known = self._known()
        if not known and await self._client.fits(*ask(whole)):
            return whole
        text, parts = paper.text, 1
        for depth in range(_DEEPEST):
            count, pieces = await self._pieces(paper.title, text, known[depth : depth + 1])
            parts = parts if depth else len(pieces)
            known = [*known[:depth], count]
            write_json(self._record, {"parts": known})
            text = await self._notes(paper.title, pieces, depth)
            if await self._client.fits(*ask(Shown(text, parts))):
                return Shown(text, parts)
        raise ReplyError(
            f"{self._subject.name}: notes on the paper's {parts} parts are longer than the model's "
            "context; serve it with a longer one, or choose another model"
        )

    def _known(self) -> list[int]:
        try:
            return [int(count) for count in json.loads(read_regular(self._record))["parts"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    async def _pieces(self, title: str, text: str, known: Sequence[int]) -> tuple[int, list[str]]:
        for count in known or PARTS:
            pieces = split(text, count)
            prompts = [self._prompt(title, pieces, at) for at in range(len(pieces))]
            if known or all([await self._client.fits(NotesReply, prompt) for prompt in prompts]):
                return count, pieces
        raise ReplyError(
            f"{self._subject.name}: not even {PARTS[-1]} parts of the paper fit into the model's "
            "context; serve it with a longer one, or choose another model"
        )

    async def _notes(self, title: str, pieces: Sequence[str], depth: int) -> str:
        async def read(at: int) -> str:
            ordinal = self._first + depth * _ORDINALS + at
            call = CallPurpose(self._subject.name, self._subject.number, "read", ordinal)
            return _told(
                await self._client.ask(call, NotesReply, self._prompt(title, pieces, at)), at + 1
            )

        return "\n\n".join(await together([partial(read, at) for at in range(len(pieces))]))

    def _prompt(self, title: str, pieces: Sequence[str], at: int) -> Prompt:
        return of_template("read", (), title=title, text=pieces[at], part=at + 1, count=len(pieces))


def split(text: str, count: int) -> list[str]:
    """Return a text in about `count` parts of similar size, which together hold all of it.

    Parts end at paragraphs, or at sentences if a paragraph is longer than a part.
    """
    size = max(1, -(-len(text) // count))
    parts, part, heading = list[str](), "", ""
    for unit in _units(text, size):
        if part and len(part) + len(unit) > size:
            parts.append(part.strip())
            part = f"{heading} (continued)\n\n" if heading and not unit.startswith("#") else ""
        if unit.startswith("#"):
            heading = unit.strip()
        part += unit
    if part.strip():
        parts.append(part.strip())
    return parts


def _units(text: str, size: int) -> Iterator[str]:
    for paragraph in re.split(r"(?<=\n\n)", text):
        if len(paragraph) <= size:
            yield paragraph
            continue
        start = 0
        for mark in [*(m.end() for m in _SENTENCE.finditer(paragraph)), len(paragraph)]:
            while mark - start > size:  # a sentence longer than a part, such as a table
                yield paragraph[start : start + size]
                start += size
            if mark > start:
                yield paragraph[start:mark]
                start = mark


def _told(notes: NotesReply, number: int) -> str:
    lists = ("claims", "methods", "results", "concerns")
    parts = [f"## Part {number}", notes.summary]
    for name in lists:
        if items := getattr(notes, name):
            parts.append("\n".join([f"{name.capitalize()}:", *(f"- {item}" for item in items)]))
    return "\n\n".join(parts)
