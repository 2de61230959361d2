"""Which versions a tree grows next: bounds, order, and the same choices whenever they are made."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.authoring.notebook import picture
from hpcscientist.authoring.tree import (
    Expansion,
    NodeState,
    TreeBounds,
    TreeVersion,
    VersionTree,
    best,
    choose,
)
from hpcscientist.records.objective import Objective
from hpcscientist.records.trial import Direction, MetricSpec

STATES: tuple[NodeState, ...] = ("works", "broken", "disqualified", "unwritten", "infra_failed")
MAXIMIZE, MINIMIZE = Direction.MAXIMIZE, Direction.MINIMIZE
Fate = Callable[[int], tuple[NodeState, float | None]]


def by(direction: Direction) -> Objective:
    return Objective(primary=MetricSpec(name="m", direction=direction))


def bounds(
    drafts: int = 3,
    nodes: int = 12,
    workers: int = 3,
    share: float = 0.5,
    depth: int = 3,
    direction: Direction = MAXIMIZE,
) -> TreeBounds:
    return TreeBounds(drafts, nodes, workers, share, depth, by(direction))


def works(number: int, value: float, parent: int = 0) -> TreeVersion:
    kind = "improve" if parent else "draft"
    return TreeVersion.model_validate(
        {"number": number, "parent": parent, "kind": kind, "state": "works", "value": value}
    )


def other(number: int, state: NodeState, parent: int = 0, kind: str = "draft") -> TreeVersion:
    return TreeVersion.model_validate(
        {"number": number, "parent": parent, "kind": kind, "state": state}
    )


def grow(
    limits: TreeBounds, fate: Fate, seed: int = 1
) -> tuple[list[TreeVersion], list[tuple[Expansion, ...]]]:
    """Grow a whole tree; `fate` says what becomes of each version, by its number."""
    nodes: list[TreeVersion] = []
    batches = []
    for step in range(1, 10_000):
        batch = choose(nodes, limits, seed, step)
        if not batch:
            return nodes, batches
        batches.append(batch)
        for chosen in batch:
            number = len(nodes) + 1
            state, value = fate(number)
            nodes.append(
                TreeVersion(
                    number=number, parent=chosen.parent, kind=chosen.kind, state=state, value=value
                )
            )
    raise AssertionError("it never ends")


def drawn(seed: int, states: tuple[NodeState, ...] = STATES) -> Fate:
    def fate(number: int) -> tuple[NodeState, float | None]:
        draw = Random(f"{seed}/{number}")
        state = draw.choice(states)
        return state, draw.random() if state == "works" else None

    return fate


LIMITS = st.builds(
    bounds,
    drafts=st.integers(1, 6),
    nodes=st.integers(1, 40),
    workers=st.integers(1, 8),
    share=st.floats(0, 1),
    depth=st.integers(0, 4),
    direction=st.sampled_from(Direction),
)


@settings(max_examples=300)
@given(LIMITS, st.integers(0, 10**6))
def test_a_tree_keeps_its_bounds(limits: TreeBounds, seed: int) -> None:
    nodes, batches = grow(limits, drawn(seed), seed)
    assert len(nodes) <= limits.nodes
    assert all(1 <= len(batch) <= limits.workers for batch in batches)
    drafts = [node for node in nodes if node.kind == "draft"]
    assert len(drafts) == min(limits.drafts, limits.nodes)
    assert [node.number for node in drafts] == list(range(1, len(drafts) + 1))
    tree = VersionTree(nodes)
    assert all(len(tree.repairs(node)) <= limits.debug_depth for node in nodes)
    for batch in batches:
        parents = [chosen.parent for chosen in batch if chosen.kind != "draft"]
        assert len(parents) == len(set(parents)), "one version is expanded twice in a step"


@settings(max_examples=300)
@given(LIMITS, st.integers(0, 10**6))
def test_only_what_deserves_it_is_expanded(limits: TreeBounds, seed: int) -> None:
    nodes, batches = grow(limits, drawn(seed), seed)
    done = 0
    for batch in batches:
        tree = VersionTree(nodes[:done])
        for chosen in batch:
            if chosen.kind == "draft":
                assert chosen.parent == 0
                continue
            parent = tree.node(chosen.parent)
            assert parent.state == {"debug": "broken", "improve": "works"}[chosen.kind]
            if chosen.kind == "debug":
                assert all(child.state == "infra_failed" for child in tree.children(parent))
            else:
                assert all(child.state != "unwritten" for child in tree.children(parent))
        done += len(batch)


@settings(max_examples=200)
@given(LIMITS, st.integers(0, 10**6))
def test_the_same_choices_are_made_again(limits: TreeBounds, seed: int) -> None:
    nodes, batches = grow(limits, drawn(seed), seed)
    done = 0
    for step, batch in enumerate(batches, start=1):
        assert choose(nodes[:done], limits, seed, step) == batch
        done += len(batch)


@settings(max_examples=200)
@given(LIMITS, st.integers(0, 10**6))
def test_it_ends_only_where_nothing_is_left(limits: TreeBounds, seed: int) -> None:
    nodes, _ = grow(limits, drawn(seed), seed)
    tree = VersionTree(nodes)
    left = [*tree.fixable(limits.debug_depth), *tree.improvable()]
    assert len(nodes) == limits.nodes or not left


@settings(max_examples=200)
@given(LIMITS, st.integers(0, 10**6))
def test_without_repairs_each_step_improves_the_best_first(limits: TreeBounds, seed: int) -> None:
    nodes, batches = grow(limits, drawn(seed, ("works",)), seed)
    sign = 1.0 if limits.objective == by(MAXIMIZE) else -1.0
    done = 0
    for batch in batches:
        before = nodes[:done]
        improved = [chosen.parent for chosen in batch if chosen.kind == "improve"]
        if improved and batch[0].kind == "improve":
            ranked = sorted(before, key=lambda node: (-sign * (node.value or 0.0), node.number))
            assert improved[0] == ranked[0].number
        done += len(batch)
    found = best(nodes, limits.objective)
    assert found is not None
    assert sign * (found.value or 0.0) == max(sign * (node.value or 0.0) for node in nodes)


def test_first_versions_come_first() -> None:
    assert choose((), bounds(drafts=3, workers=2), 1, 1) == (Expansion("draft"),) * 2
    nodes = (works(1, 0.5), works(2, 0.6))
    found = choose(nodes, bounds(drafts=3, workers=2), 1, 2)
    assert found[0] == Expansion("draft")
    assert found[1] == Expansion("improve", 2)


def test_different_trees_go_before_the_next_best_of_one() -> None:
    nodes = (works(1, 0.5), works(2, 0.4), works(3, 0.9, parent=1))
    found = choose(nodes, bounds(drafts=2, share=0.0), 1, 3)
    assert [chosen.parent for chosen in found] == [3, 2, 1]
    found = choose(nodes, bounds(drafts=2, share=0.0, direction=MINIMIZE), 1, 3)
    assert [chosen.parent for chosen in found] == [2, 1, 3]


def test_the_earliest_of_equals_is_the_best() -> None:
    nodes = (works(1, 0.5), works(2, 0.5))
    assert best(nodes, by(MAXIMIZE)) == nodes[0]
    assert best((other(1, "broken"),), by(MAXIMIZE)) is None


@pytest.mark.parametrize(("share", "kind"), [(0.0, "improve"), (1.0, "debug")])
def test_a_share_of_steps_fixes(share: float, kind: str) -> None:
    nodes = (works(1, 0.5), other(2, "broken"))
    for step in range(3, 30):
        (first, *_) = choose(nodes, bounds(drafts=2, workers=1, share=share), 5, step)
        assert first.kind == kind


def test_a_share_is_kept_on_average() -> None:
    nodes = (works(1, 0.5), other(2, "broken"))
    limits = bounds(drafts=2, workers=1, share=0.3)
    kinds = [choose(nodes, limits, seed, 3)[0].kind for seed in range(2000)]
    assert 0.26 < kinds.count("debug") / len(kinds) < 0.34


def test_where_nothing_works_what_is_broken_is_fixed() -> None:
    nodes = (other(1, "broken"), other(2, "broken"))
    found = choose(nodes, bounds(drafts=2, share=0.0), 1, 2)
    assert sorted(chosen.parent for chosen in found) == [1, 2]
    assert {chosen.kind for chosen in found} == {"debug"}
    assert choose(nodes, bounds(drafts=2, depth=0), 1, 2) == ()


def test_repairs_in_a_row_are_bounded_and_an_improvement_begins_anew() -> None:
    row = [other(1, "broken"), other(2, "broken", 1, "debug"), other(3, "broken", 2, "debug")]
    assert choose(row, bounds(drafts=1, depth=2), 1, 4) == ()
    assert choose(row, bounds(drafts=1, depth=3), 1, 4) == (Expansion("debug", 3),)
    anew = [works(1, 0.5), other(2, "broken", 1, "improve")]
    assert Expansion("debug", 2) in choose(anew, bounds(drafts=1, depth=1), 1, 3)


def test_who_tampers_is_never_expanded() -> None:
    nodes = (other(1, "disqualified"), other(2, "disqualified"))
    assert choose(nodes, bounds(drafts=2, share=1.0), 1, 2) == ()


def test_what_the_machine_failed_leaves_a_leaf() -> None:
    nodes = (other(1, "broken"), other(2, "infra_failed", 1, "debug"))
    assert choose(nodes, bounds(drafts=1), 1, 3) == (Expansion("debug", 1),)
    cut = (other(1, "broken"), other(2, "unwritten", 1, "debug"))
    assert choose(cut, bounds(drafts=1), 1, 3) == ()


def test_a_version_in_which_nothing_was_found_to_improve_is_left() -> None:
    nodes = (works(1, 0.9), works(2, 0.1), other(3, "unwritten", 1, "improve"))
    found = choose(nodes, bounds(drafts=2), 1, 3)
    assert found == (Expansion("improve", 2),)


def test_a_tree_is_drawn() -> None:
    nodes = (
        works(1, 0.5), other(2, "broken"), other(3, "broken", 1, "improve"),
        TreeVersion(number=4, parent=2, kind="debug", state="works", value=0.75),
        other(5, "unwritten", 3, "debug"), works(6, 0.625, 1),
        other(7, "disqualified", 4, "improve"),
    )  # fmt: skip
    assert picture(nodes, 4) == DRAWN
    assert picture((), None) == "reference"


DRAWN = """\
reference
├─ 1 first version: 0.5
│  ├─ 3 improvement: failed
│  │  └─ 5 repair: not written
│  └─ 6 improvement: 0.625
└─ 2 first version: failed
   └─ 4 repair: 0.75, the best
      └─ 7 improvement: set aside"""


def test_ancestry() -> None:
    nodes = (
        works(1, 0.5), other(2, "broken", 1, "improve"), other(3, "broken", 2, "debug"),
        TreeVersion(number=4, parent=3, kind="debug", state="works", value=0.7),
        other(5, "infra_failed", 1, "improve"),
    )  # fmt: skip
    tree = VersionTree(nodes)
    assert [node.number for node in tree.line(nodes[3])] == [1, 2, 3, 4]
    assert [node.number for node in tree.repairs(nodes[3])] == [3, 4]
    assert tree.repairs(nodes[1]) == ()
    assert tree.fixed(nodes[1]) == nodes[3]
    assert tree.fixed(nodes[4]) == nodes[4]
