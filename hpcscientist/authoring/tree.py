"""Best-first search over versions of an idea's code: which versions are made next.

The AI Scientist v2 (arXiv 2504.08066, section 3.2) grows a tree whose nodes are programs: first
versions as roots; then, with some probability, a repair of a broken leaf, else an improvement of
the best working node; several at once, from different roots where possible. As there, a node's
value is what its run measured. There a model judges the run; here it is a pilot that a trusted
program scored. No version is expanded twice in one step, because the same question would get
nearly the same answer. At most `Bounds.drafts` first versions are made.

Pure: the choice depends only on the versions made, the bounds, the seed and the step. So a driver
that resumes makes the same choices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from pydantic import Field

from hpcscientist.records.objective import Objective, ObjectiveValue, ranked

Growth = Literal["draft", "debug", "improve"]
# disqualified: it tampered, or does nothing; unwritten: the author gave up; infra_failed: the
# machine failed it repeatedly.
NodeState = Literal["works", "broken", "disqualified", "unwritten", "infra_failed"]


class TreeVersion(ObjectiveValue):
    """A version of an idea's code, and what its pilot measured, if the version works.

    `parent` is the version it was made from, 0 for the reference.
    """

    number: int = Field(ge=1)
    parent: int = Field(default=0, ge=0)
    kind: Growth = "draft"
    state: NodeState


@dataclass(frozen=True, slots=True)
class Expansion:
    """A version to make: its `kind`, and the `parent` it is made from (0: the reference)."""

    kind: Growth
    parent: int = 0


@dataclass(frozen=True, slots=True)
class TreeBounds:
    """The limits of a tree's growth, as in `config.settings.AuthoringSettings`.

    Versions are compared by the `objective`.
    """

    drafts: int
    nodes: int
    workers: int
    debug_share: float
    debug_depth: int
    objective: Objective


def choose(
    nodes: Sequence[TreeVersion], bounds: TreeBounds, seed: int, step: int
) -> tuple[Expansion, ...]:
    """Return the next versions to make, at most `workers`; () when the tree is complete.

    `nodes` are all versions so far, including unwritten ones, in the order of their numbers.
    `seed` is the idea's, and `step` counts the choices for it.
    """
    room = min(bounds.workers, bounds.nodes - len(nodes))
    drafts = sum(node.kind == "draft" for node in nodes)
    draw = Random(_mixed(seed, step))
    choice = _Choice(VersionTree(nodes), bounds)
    chosen: list[Expansion] = []
    while len(chosen) < room:
        if drafts < bounds.drafts:
            drafts += 1
            chosen.append(Expansion("draft"))
            continue
        found = choice.next(draw)
        if found is None:
            break
        chosen.append(found)
    return tuple(chosen)


def best(nodes: Sequence[TreeVersion], objective: Objective) -> TreeVersion | None:
    """Return the version that works best, the earliest of equals; None if none works."""
    return next(iter(_ranked(nodes, objective)), None)


class VersionTree:
    """The versions of an idea, with the lines of descent between them."""

    def __init__(self, nodes: Sequence[TreeVersion]) -> None:
        self.nodes = tuple(nodes)
        self._by_number = {node.number: node for node in nodes}
        self._children: dict[int, list[TreeVersion]] = {}
        for node in nodes:
            self._children.setdefault(node.parent, []).append(node)

    def node(self, number: int) -> TreeVersion:
        """Return a version by its number. Raises KeyError."""
        return self._by_number[number]

    def line(self, node: TreeVersion) -> tuple[TreeVersion, ...]:
        """Return a version's ancestors, the first version first, and the version itself."""
        found = [node]
        while found[-1].parent:
            found.append(self._by_number[found[-1].parent])
        return tuple(reversed(found))

    def repairs(self, node: TreeVersion) -> tuple[TreeVersion, ...]:
        """Return the unbroken chain of repairs that ends at a version, the earliest first."""
        found: list[TreeVersion] = []
        for one in reversed(self.line(node)):
            if one.kind != "debug":
                break
            found.append(one)
        return tuple(reversed(found))

    def children(self, node: TreeVersion) -> tuple[TreeVersion, ...]:
        """Return the versions that were made from one."""
        return tuple(self._children.get(node.number, ()))

    def fixed(self, node: TreeVersion) -> TreeVersion:
        """Return the end of a version's chain of written repairs, or the version itself."""
        while True:
            repaired = [
                child
                for child in self.children(node)
                if child.kind == "debug" and child.state not in ("unwritten", "infra_failed")
            ]
            if not repaired:
                return node
            node = repaired[-1]

    def fixable(self, depth: int) -> Iterator[TreeVersion]:
        """Yield broken leaves with fewer than `depth` repairs behind them.

        A child that the machine failed says nothing, so its parent still counts as a leaf.
        """
        for node in self.nodes:
            leaf = all(child.state == "infra_failed" for child in self.children(node))
            if node.state == "broken" and leaf and len(self.repairs(node)) < depth:
                yield node

    def improvable(self) -> Iterator[TreeVersion]:
        """Yield versions that work, except those that an author found nothing to improve in."""
        for node in self.nodes:
            if node.state == "works" and all(
                child.state != "unwritten" for child in self.children(node)
            ):
                yield node


@dataclass(slots=True)
class _Choice:
    """One step's choices among existing versions; each version is chosen at most once."""

    tree: VersionTree
    bounds: TreeBounds
    _taken: set[int] = field(default_factory=set)
    _roots: set[int] = field(default_factory=set)

    def next(self, draw: Random) -> Expansion | None:
        broken = [n for n in self.tree.fixable(self.bounds.debug_depth) if self._is_free(n)]
        good = [n for n in self.tree.improvable() if self._is_free(n)]
        if not broken and not good:
            return None
        # Always draw both, so that a draw's place in the sequence tells what it is for.
        fixes = draw.random() < self.bounds.debug_share
        place = draw.random()
        if broken and (fixes or not good):
            return self._take("debug", broken[int(place * len(broken))])
        # Ranked among all versions: what is dominated stays so when its dominator is taken.
        order = [node for node in _ranked(self.tree.nodes, self.bounds.objective) if node in good]
        elsewhere = (node for node in order if self._root(node) not in self._roots)
        return self._take("improve", next(elsewhere, order[0]))

    def _is_free(self, node: TreeVersion) -> bool:
        return node.number not in self._taken

    def _root(self, node: TreeVersion) -> int:
        return self.tree.line(node)[0].number

    def _take(self, kind: Growth, node: TreeVersion) -> Expansion:
        self._taken.add(node.number)
        self._roots.add(self._root(node))
        return Expansion(kind, node.number)


def _ranked(nodes: Sequence[TreeVersion], objective: Objective) -> list[TreeVersion]:
    """Return the working versions, the best first."""
    working = {node.number: node for node in nodes if node.state == "works"}
    return [working[number] for number in ranked(working, objective)]


def _mixed(seed: int, step: int) -> int:
    digest = hashlib.sha256(f"{seed}/tree/{step}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
