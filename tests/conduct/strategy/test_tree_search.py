"""What the machine spoils in a tree: what waits for it, and what is left out for good."""

from __future__ import annotations

import pytest

from hpcscientist.authoring.tree import TreeBounds
from hpcscientist.conduct.strategy.linear import Evaluation
from hpcscientist.conduct.strategy.steps import (
    Abandon,
    AnyStep,
    Pilot,
    Piloted,
    SetAside,
    Write,
    Written,
)
from hpcscientist.conduct.strategy.strategy import Following, Strategy
from hpcscientist.conduct.strategy.strategy_replay import Measuring
from hpcscientist.conduct.strategy.tree_search import TreeWay
from hpcscientist.records.objective import Objective, ObjectiveValue
from hpcscientist.records.trial import (
    Direction,
    MachineFailed,
    MachineFailure,
    MetricSpec,
    Scored,
)

OBJECTIVE = Objective(primary=MetricSpec(name="m", direction=Direction.MAXIMIZE))
BOUNDS = TreeBounds(
    drafts=3, nodes=3, workers=3, debug_share=0.5, debug_depth=2, objective=OBJECTIVE
)
INFRA_FAILED = MachineFailed(failure=MachineFailure.NODE, detail="gone")


def own() -> Strategy:
    legs = Evaluation(debug_rounds=1, advice_rounds=0, advised=False, measuring=Measuring(3))
    return Strategy(TreeWay(BOUNDS, 7, legs), Following(0, False, (), legs))


def scored(value: float) -> Piloted:
    return Piloted(Scored(metrics={"m": value}), "trial", measured=ObjectiveValue(value=value))


def written() -> dict[AnyStep, object]:
    """A tree whose first versions are there, and have not been tried."""
    tree: dict[AnyStep, object] = {}
    for _ in range(BOUNDS.drafts):
        (write,) = (step for step in own().next(tree).steps if isinstance(step, Write))
        tree[write] = Written(f"code-{write.version.number}")
    return tree


def answer(tree: dict[AnyStep, object], number: int, piloted: Piloted) -> None:
    for step in own().next(tree).steps:
        if isinstance(step, Pilot) and step.version.number == number:
            tree[step] = piloted


def test_first_versions_are_written_in_turn_and_tried_as_they_come() -> None:
    tree: dict[AnyStep, object] = {}
    for number in (1, 2, 3):
        *pilots, write = own().next(tree).steps
        assert [step.version.number for step in pilots] == list(range(1, number))
        assert isinstance(write, Write) and write.version.number == number
        tree[write] = Written(f"code-{number}")
    assert [type(step) for step in own().next(tree).steps] == [Pilot, Pilot, Pilot]


def test_what_is_lost_is_left_out_once_all_of_its_step_have_ended() -> None:
    tree = written()
    answer(tree, 2, Piloted(INFRA_FAILED, "trial-2", lost=True))
    answer(tree, 1, scored(0.5))
    assert {type(step) for step in own().next(tree).steps} == {Pilot}  # number 3
    answer(tree, 3, scored(0.4))
    (left,) = own().next(tree).steps
    assert left == Abandon("pilot/2", "machine failed: node")


@pytest.mark.parametrize(("waits", "lost"), [(1, 2), (1, 3), (2, 3)])
def test_nothing_is_left_out_while_the_idea_waits_for_one_before_it(waits: int, lost: int) -> None:
    tree = written()
    answer(tree, lost, Piloted(INFRA_FAILED, f"trial-{lost}", lost=True))
    answer(tree, waits, Piloted(INFRA_FAILED, f"trial-{waits}"))
    answer(tree, 6 - waits - lost, scored(0.5))
    (last,) = own().next(tree).steps
    assert last == SetAside(f"trial-{waits}", "machine failed (node): gone")
