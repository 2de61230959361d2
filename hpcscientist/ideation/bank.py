"""The bank: rejects ideas that are too similar to earlier ones.

Dolphin (arXiv 2501.03916, 3.2) compares summaries by cosine similarity and drops those above 0.8.
Here the embedder decides what the vectors are: those of a model, which detect similar meaning, or
counts of keywords, which detect only similar words. Ideas of the control arm always have the same
wording, so they are compared by their knobs.

Small models propose one change twice in different words. So an idea with the title of an earlier
one repeats it: a model of 1.5 billion weights gave four ideas in a row the title "Train for longer
at the same learning rate". And ideas with the same `changes` (the names of the reference's code
that they mention) are also compared by their titles, with a lower threshold.

The bank holds every idea that the campaign has admitted so far, whatever its outcome. So declined
and unchanged ideas reject similar ones, a crashed idea is not proposed again in the same words, and
an improvement is built on by a different idea, not by itself. Nothing ever leaves the bank, so what
is rejected does not depend on which idea ended first.

It can also hold ideas of earlier campaigns with their outcomes: those that declined, changed
nothing or crashed. The caller that fills the bank leaves out improvements, because new ideas build
on them.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from hpcscientist.errors import RecipeError
from hpcscientist.models.embedding.keywords import KeywordEmbedder
from hpcscientist.ports import Embedder
from hpcscientist.recipe.knobs import parse
from hpcscientist.records.base import Record
from hpcscientist.records.idea import KnobValue, Proposal

_TOGETHER = 1024  # summaries that are embedded at once
_SAME_CHANGE = 0.75  # times the threshold: the limit for titles of ideas with the same changes

Name = str | tuple[str, str, str]  # an id, or id, origin and fate; compact, for millions of them


class Banked(Record):
    """An idea in the bank. Ideas of earlier campaigns have an `origin` and a `fate`.

    `origin` is the campaign's run directory; `fate` completes a clause after "which": "declined".
    """

    idea_id: str
    origin: str = ""
    fate: str = ""

    @property
    def words(self) -> str:
        """The idea's name in a rejection, such as "idea-0007 of runs/a, which declined"."""
        place = f" of {self.origin}" if self.origin else ""
        return f"{self.idea_id}{place}" + (f", which {self.fate}" if self.fate else "")


class Nearest(Banked):
    """The earlier idea most similar to a summary, and their cosine (at most 1).

    `changes`: what both ideas change, if their titles were compared for that. `same_title`: their
    titles are the same.
    """

    cosine: float
    changes: tuple[str, ...] = ()
    same_title: bool = False


class Bank:
    """Summaries and knob settings of the ideas accepted so far.

    `prepare` may be called from any thread, everything else from one thread only.
    """

    def __init__(self, threshold: float = 0.8, embedder: Embedder | None = None) -> None:
        self.threshold = threshold
        self._embedder = embedder or KeywordEmbedder()
        self._index = self._embedder.index()
        self._ideas: list[Name] = []
        self._prepared: dict[str, Any] = {}
        self._knobs: dict[str, Banked] = {}
        self._titles: dict[tuple[str, ...], dict[str, str]] = {}  # by changes: ids by title
        self._titled: dict[str, str] = {}  # ids by title, in normal form

    def __len__(self) -> int:
        return len(self._ideas) + len(self._knobs)

    def prepare(self, summary: str) -> None:
        """Compute a summary's vector in advance, which is the slow part. Raises ModelError.

        The vector is kept until the summary is added or rejected.
        """
        self._prepared[summary] = self._index.prepare(summary)

    def nearest(self, summary: str) -> Nearest | None:
        """Return the earlier idea with the most similar summary; the first on a tie.

        None while no summary is in the bank. Raises ModelError.
        """
        found = self._index.nearest(self._vector(summary)) if self._ideas else None
        return _nearest(self._ideas, found)

    def look_alike(
        self, summary: str, title: str = "", changes: tuple[str, ...] = ()
    ) -> Nearest | None:
        """Return the earlier idea with the same title, if there is one.

        Otherwise return the nearest one if its cosine is above the threshold (not at it). Otherwise
        return the idea with the most similar title among those with the same `changes`, if that
        cosine is above 3/4 of the threshold. A threshold of 1 or more rejects nothing. Raises
        ModelError.
        """
        nearest = self._same_title(title) or self.nearest(summary)
        if nearest is None or not (nearest.same_title or nearest.cosine > self.threshold):
            nearest = self._same_change(title, changes)
        if nearest is not None:
            self._prepared.pop(summary, None)
        return nearest

    def _same_title(self, title: str) -> Nearest | None:
        known = self._titled.get(_normal(title)) if self.threshold < 1 else None
        return Nearest(idea_id=known, cosine=1.0, same_title=True) if known else None

    def _same_change(self, title: str, changes: tuple[str, ...]) -> Nearest | None:
        titles = self._titles.get(changes)
        if self.threshold >= 1 or not titles:
            return None
        index = self._embedder.index()  # few ideas share changes: no permanent index is needed
        own, *others = index.prepare_each([title, *titles])
        for other in others:
            index.add(other)
        nearest = _nearest([*titles.values()], index.nearest(own))
        if nearest is None or nearest.cosine <= _SAME_CHANGE * self.threshold:
            return None
        return nearest.model_copy(update={"changes": changes})

    def check(self, proposed: Sequence[tuple[str, str]]) -> list[Nearest | None]:
        """Return for each idea of a batch the earlier idea that it repeats; None to admit it.

        `proposed` holds ids and summaries in the order of proposal. The verdicts are those of
        `look_alike` by summaries, as if each admitted idea were added before the next is checked.
        But the bank is read once, and nothing is added to it. Vectors of ideas that may be admitted
        are kept. Raises ModelError.
        """
        vectors = self._vectors([summary for _, summary in proposed])
        earlier = self._index.nearest_each(vectors)
        accepted, kept, index = list[str](), dict[str, Any](), self._embedder.index()
        verdicts: list[Nearest | None] = []
        for (idea_id, summary), vector, before in zip(proposed, vectors, earlier, strict=True):
            self._prepared.pop(summary, None)
            beside = index.nearest(vector)
            if before is None or (beside is not None and beside[1] > before[1]):
                nearest = _nearest(accepted, beside)
            else:
                nearest = _nearest(self._ideas, before)
            if nearest is None or nearest.cosine <= self.threshold:
                index.add(vector)
                accepted.append(idea_id)
                kept[summary] = vector
                nearest = None
            verdicts.append(nearest)
        self._prepared |= kept
        return verdicts

    def same_knobs(self, knobs: Mapping[str, KnobValue]) -> str | None:
        """Return the name of the earlier idea with exactly these knobs and values, if any."""
        same = self._knobs.get(_knob_key(knobs))
        return same.words if same else None

    def add(
        self,
        idea_id: str,
        summary: str,
        knobs: Mapping[str, KnobValue] | None = None,
        title: str = "",
        changes: tuple[str, ...] = (),
    ) -> None:
        """Add an accepted idea: by its knobs if it has any, else by its summary. Raises ModelError.

        Its title is added too, with `changes` also for ideas with the same changes.
        """
        if knobs is not None:
            self._knobs.setdefault(_knob_key(knobs), Banked(idea_id=idea_id))
            return
        self._index.add(self._vector(summary))
        self._ideas.append(idea_id)
        self._prepared.pop(summary, None)
        if normal := _normal(title):
            self._titled.setdefault(normal, idea_id)
        if changes:
            self._titles.setdefault(changes, {}).setdefault(title, idea_id)

    def add_earlier(
        self, ideas: Sequence[tuple[Banked, str, Mapping[str, KnobValue] | None]]
    ) -> None:
        """Add ideas of earlier campaigns with their summaries and knobs, many at once.

        They are not compared with each other. Raises ModelError.
        """
        for banked, _, knobs in ideas:
            if knobs is not None:
                self._knobs.setdefault(_knob_key(knobs), banked)
        worded = [(banked, summary) for banked, summary, knobs in ideas if knobs is None]
        for start in range(0, len(worded), _TOGETHER):
            some = worded[start : start + _TOGETHER]
            for vector in self._index.prepare_each([summary for _, summary in some]):
                self._index.add(vector)
            self._ideas += [_name(banked) for banked, _ in some]

    def _vector(self, summary: str) -> Any:
        return self._vectors([summary])[0]

    def _vectors(self, summaries: Sequence[str]) -> list[Any]:
        """Return the vectors of summaries; those not prepared are embedded together."""
        new = list(dict.fromkeys(s for s in summaries if s not in self._prepared))
        made = dict(zip(new, self._index.prepare_each(new) if new else (), strict=True))
        return [made[s] if s in made else self._prepared[s] for s in summaries]


def _normal(title: str) -> str:
    return " ".join(title.casefold().split()).strip(" .:;!'\"`*“”‘’")


def _name(banked: Banked) -> Name:
    if banked.origin or banked.fate:
        return banked.idea_id, sys.intern(banked.origin), sys.intern(banked.fate)
    return banked.idea_id


def _nearest(ideas: Sequence[Name], found: tuple[int, float] | None) -> Nearest | None:
    if found is None:
        return None
    name, cosine = ideas[found[0]], found[1]
    idea_id, origin, fate = (name, "", "") if isinstance(name, str) else name
    return Nearest(idea_id=idea_id, origin=origin, fate=fate, cosine=cosine)


def _knob_key(knobs: Mapping[str, KnobValue]) -> str:
    """Return a text that is equal for equal knobs only: 1, 1.0, true and "1" differ."""
    return json.dumps(dict(knobs), sort_keys=True)


# What a proposal changes: the constants and definitions of the reference that it names.

_LIKE_CODE = re.compile(r"`([^`\s]+)`|\b(\w*_\w*)\b|\b(\w+)\(|\b([A-Z][A-Z0-9_]+)\b")
_WORD = re.compile(r"\w+")
_TEXTS = ("title", "method", "technical_details", "experiment_plan")


def defined(reference: Mapping[str, str], files: Iterable[str]) -> frozenset[str]:
    """Return the top-level names in the code of some files, in casefolded form."""
    names = set[str]()
    for file in files:
        try:
            body = parse(reference.get(file, "")).body
        except RecipeError:  # a file of another kind
            continue
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name.casefold())
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {
                    target.id.casefold() for target in targets if isinstance(target, ast.Name)
                }
    return frozenset(names)


def touched(proposal: Proposal, names: Collection[str]) -> tuple[str, ...]:
    """Return the names that a proposal writes as code, sorted; names in plain prose are ignored."""
    found = set[str]()
    for text in _TEXTS:
        for match in _LIKE_CODE.finditer(getattr(proposal, text)):
            written = next(group for group in match.groups() if group)
            found |= {word.casefold() for word in _WORD.findall(written)}
    return tuple(sorted(found.intersection(names)))
