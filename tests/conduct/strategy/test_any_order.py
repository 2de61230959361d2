"""Whatever ends first, and wherever a driver is killed: the same versions, trials and end."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.authoring.revising import REPEATS
from hpcscientist.authoring.tree import TreeBounds
from hpcscientist.conduct.strategy.linear import Evaluation, LinearWay
from hpcscientist.conduct.strategy.steps import (
    Abandon,
    AnyStep,
    Climb,
    Conclude,
    Judged,
    Last,
    Measured,
    Pilot,
    Piloted,
    Read,
    Review,
    Seeds,
    SetAside,
    Write,
    WriteCompletion,
    WriteDraft,
    WriteFix,
    WriteFurtherRun,
    WriteImprovement,
    Written,
)
from hpcscientist.conduct.strategy.strategy import Following, Strategy
from hpcscientist.conduct.strategy.strategy_replay import Measuring, Remark
from hpcscientist.conduct.strategy.tree_search import TreeWay
from hpcscientist.feedback.effort import Schedule
from hpcscientist.records.authoring import GaveUp
from hpcscientist.records.experiment import FurtherRun
from hpcscientist.records.objective import Objective, ObjectiveValue
from hpcscientist.records.trial import (
    Direction,
    IdeaFailed,
    IdeaFailure,
    MachineFailed,
    MachineFailure,
    MetricSpec,
    Outcome,
    Scored,
)


@dataclass(frozen=True)
class Luck:
    """How often what goes wrong in a world, per cent."""

    gives_up: int
    fails: int
    tampers: int
    infra_failed: int
    lost: int  # of what the machine failed
    idle: int
    hopeless: int
    doubles: int
    lacking: int


@dataclass
class World:
    """Answers every step; what it says depends on its seed and the step alone, and on what drivers
    put on record.
    """

    seed: int
    luck: Luck
    abandoned: dict[str, str] = field(default_factory=dict)
    fixed: bool = False  # the machine: what it failed runs well, unless it is not run again

    def answer(self, step: AnyStep) -> object:
        draw = random.Random(f"{self.seed}/{step!r}")
        match step:
            case Write(_, task):
                return self._written(task, draw)
            case Pilot(version):
                task = f"pilot/{version.number}"
                return self._piloted(task, draw, again=task not in self.abandoned)
            case Abandon(task, reason):
                self.abandoned[task] = reason
                return None
            case Review():
                lacking = draw.uniform(0, 100) < self.luck.lacking
                return Judged(not lacking, "norm is partial" if lacking else "")
            case Climb() | Seeds():
                return self._measured(step, draw)
            case Read():
                run = FurtherRun(kind="ablation", title="t", purpose="p", change="c")
                asks = draw.uniform(0, 100) < 70
                return run if asks else None
            case Conclude() | SetAside():
                raise AssertionError(step)

    def _written(self, task: str, draw: random.Random) -> Written | GaveUp:
        if task in self.abandoned:
            return GaveUp(reason=self.abandoned[task])
        if draw.uniform(0, 100) < self.luck.gives_up:
            return GaveUp(reason="no idea")
        few = draw.uniform(0, 100) < self.luck.doubles
        return Written(f"double-{draw.randrange(2)}" if few else f"code-{task}")

    def _outcome(self, draw: random.Random, again: bool = True) -> tuple[Outcome, bool]:
        drawn = draw.uniform(0, 100)
        bounds = (self.luck.infra_failed, self.luck.tampers, self.luck.fails)
        if drawn < bounds[0] and self.fixed and again:
            drawn = 100.0
        if drawn < bounds[0]:
            failed = MachineFailed(failure=MachineFailure.NODE, detail="gone")
            return failed, draw.uniform(0, 100) < self.luck.lost
        if drawn < sum(bounds[:2]):
            return IdeaFailed(failure=IdeaFailure.TAMPERING, detail="tampered"), False
        if drawn < sum(bounds):
            return IdeaFailed(failure=IdeaFailure.ERROR, detail="ValueError"), False
        return Scored(metrics={"m": draw.random()}), False

    def _piloted(self, trial: str, draw: random.Random, again: bool) -> Piloted:
        outcome, lost = self._outcome(draw, again)
        if not isinstance(outcome, Scored):
            return Piloted(outcome, trial, lost)
        hopeless = "hopeless" if draw.uniform(0, 100) < self.luck.hopeless else None
        idle = draw.uniform(0, 100) < self.luck.idle
        measured = ObjectiveValue(value=outcome.metrics["m"])
        return Piloted(outcome, trial, measured=measured, hopeless=hopeless, idle=idle)

    def _measured(self, step: Climb | Seeds, draw: random.Random) -> Measured:
        outcome, lost = self._outcome(draw)
        if isinstance(step, Climb):
            return Measured(outcome, f"{step!r}", lost, more=int(draw.random() < 0.7))
        left = MOST - step.which.stop
        more = draw.choice([0, min(2, left)]) if isinstance(outcome, Scored) and left > 0 else 0
        return Measured(outcome, f"{step!r}", lost, more, known=step.count)


MOST = 6


def strategy(grows: bool, analysed: bool, scheduled: bool) -> Strategy:
    measuring = Measuring(3, 2, Schedule((2, MOST))) if scheduled else Measuring(3)
    legs = Evaluation(debug_rounds=2, advice_rounds=1, advised=True, measuring=measuring)
    bounds = TreeBounds(
        drafts=3,
        nodes=9,
        workers=4,
        debug_share=0.5,
        debug_depth=2,
        objective=Objective(primary=MetricSpec(name="m", direction=Direction.MAXIMIZE)),
    )
    way = TreeWay(bounds, 7, legs) if grows else LinearWay(legs)
    return Strategy(way, Following(2, analysed, ("a norm", "a gate"), legs))


@dataclass
class Driver:
    """Does what a strategy says, in an order of its own, until it says the last step."""

    world: World
    draw: random.Random
    done: list[AnyStep] = field(default_factory=list)
    told: tuple[Remark, ...] = ()

    def drive(self, own: Strategy, killed_after: int | None = None) -> Last | None:
        tree: dict[AnyStep, object] = {}
        under_way: list[AnyStep] = []
        while killed_after is None or len(self.done) < killed_after:
            found = own.next(tree)
            assert found.told[: len(self.told)] == self.told
            self.told = found.told
            assert len(set(found.steps)) == len(found.steps) > 0
            assert not set(found.steps) & tree.keys()
            last = found.steps[0]
            if isinstance(last, Conclude | SetAside):
                assert found.steps == (last,)
                assert not under_way, "something is under way that nobody waits for"
                return last
            assert set(under_way) <= set(found.steps)
            under_way += [step for step in found.steps if step not in under_way]
            step = under_way.pop(self.draw.randrange(len(under_way)))
            tree[step] = self.world.answer(step)
            self.done.append(step)
            assert len(self.done) < 200
        return None


LUCK = st.builds(
    Luck,
    gives_up=st.integers(0, 30),
    fails=st.integers(0, 50),
    tampers=st.integers(0, 10),
    infra_failed=st.integers(0, 15),
    lost=st.integers(0, 100),
    idle=st.integers(0, 20),
    hopeless=st.integers(0, 20),
    doubles=st.integers(0, 30),
    lacking=st.integers(0, 100),
)
STRATEGIES = st.builds(strategy, st.booleans(), st.booleans(), st.booleans())


def kept(steps: Sequence[AnyStep]) -> set[AnyStep]:
    """Trials and what versions are about; that a double is abandoned is on record but once."""
    return {step for step in steps if not isinstance(step, Abandon)}


@given(LUCK, STRATEGIES, st.integers(0, 2**16), st.randoms(use_true_random=False))
def test_what_ends_first_changes_nothing(
    luck: Luck, own: Strategy, seed: int, draw: random.Random
) -> None:
    one, other = (Driver(World(seed, luck), random.Random(draw.random())) for _ in range(2))
    assert one.drive(own) == other.drive(own)
    assert set(one.done) == set(other.done)
    assert one.told == other.told


@given(
    LUCK, STRATEGIES, st.integers(0, 2**16), st.integers(0, 40), st.randoms(use_true_random=False)
)
def test_a_driver_killed_anywhere_changes_nothing(
    luck: Luck, own: Strategy, seed: int, after: int, draw: random.Random
) -> None:
    whole = Driver(World(seed, luck), random.Random(0))
    end = whole.drive(own)
    world = World(seed, luck)
    killed = Driver(world, random.Random(draw.random()))
    if killed.drive(own, killed_after=after) is None:
        resumed = Driver(world, random.Random(draw.random()))
        assert resumed.drive(own) == end
        assert kept(resumed.done) == kept(whole.done) >= kept(killed.done)
        assert resumed.told == whole.told


@given(
    LUCK, STRATEGIES, st.integers(0, 2**16), st.integers(0, 40), st.randoms(use_true_random=False)
)
def test_nothing_is_built_on_what_the_machine_infra_failed(
    luck: Luck, own: Strategy, seed: int, after: int, draw: random.Random
) -> None:
    world = World(seed, replace(luck, infra_failed=30, lost=100))
    killed = Driver(world, random.Random(draw.random()))
    if killed.drive(own, killed_after=after) is None:
        world.fixed = True
        resumed = Driver(world, random.Random(draw.random()))
        resumed.drive(own)
        assert kept(killed.done) <= kept(resumed.done)


@given(LUCK, STRATEGIES, st.integers(0, 2**16))
def test_versions_descend_from_earlier_ones_and_are_tried_once(
    luck: Luck, own: Strategy, seed: int
) -> None:
    driver = Driver(World(seed, luck), random.Random(seed))
    driver.drive(own)
    tried = {step.version.number: step.version for step in driver.done if isinstance(step, Pilot)}
    assert len(tried) == sum(isinstance(step, Pilot) for step in driver.done)
    for step in driver.done:
        match step:
            case Write(version, _, known):
                assert 0 <= known < version.number
                assert version.parent == 0 or version.parent in tried
                assert version.parent < version.number
            case Climb(version) | Seeds(version):
                assert tried[version.number] == version
    assert len([step for step in driver.done if isinstance(step, Seeds)]) <= MOST * len(tried)


def test_every_end_is_met() -> None:
    """The worlds above are worth something: they come to each end, and to each kind of step."""
    luck = Luck(15, 30, 5, 8, 50, 10, 10, 20, 50)
    ends: set[str] = set()
    steps: set[type[object]] = set()
    for seed in range(300):
        own = strategy(seed % 2 == 0, seed % 3 == 0, seed % 5 < 2)
        driver = Driver(World(seed, luck), random.Random(seed))
        last = driver.drive(own)
        steps |= {type(step) for step in driver.done}
        ends.add(_kind(last, driver.world.abandoned))
    assert ends == {"scored", "failed", "set aside", "failed by the machine", "doubles"}
    asked = {WriteDraft, WriteFix, WriteCompletion, WriteImprovement, WriteFurtherRun}
    assert steps == {*asked, Pilot, Abandon, Review, Climb, Seeds, Read}


def _kind(last: Last | None, abandoned: Mapping[str, str]) -> str:
    if REPEATS in abandoned.values():
        return "doubles"
    match last:
        case SetAside():
            return "set aside"
        case Conclude(status, reason):
            machine = reason is not None and "machine failed" in reason
            return "failed by the machine" if machine else status
        case _:
            raise AssertionError(last)
