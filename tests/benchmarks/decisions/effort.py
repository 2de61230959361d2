"""What adaptive allocation saves: trials an idea for equal power, over a mix of ideas.

Campaigns hold 7 ideas in 10 that do nothing, 2 that are worse and 1 that is better, by 0.5 to 2
standard deviations. Sequential allocation and successive halving give each idea its seeds as the
loop does. Beside them every idea gets the same number of seeds, at which the same rule finds the
same share of what is truly better: interpolated between whole numbers. Trials are those of the
search, the baseline's included; all confirm alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.decisions.allocating import Allocated, Allocation, allocate, settings_of
from benchmarks.decisions.counting import aligned
from benchmarks.decisions.judging import OURS, Name, search
from benchmarks.decisions.world import Campaign, Ideas, Numbers, World
from hpcscientist.bench.figure import Figure
from hpcscientist.ports import Tell
from hpcscientist.records.findings import Finding, Verdict

TARGET: Final = 0.6  # of the trials of a fixed number of seeds
BETTER: Final = 0.1  # a share of the ideas
WORSE: Final = 0.2
SMALLEST: Final = 0.5  # standard deviations
LARGEST: Final = 2.0
ADAPTIVE: Final[tuple[Allocation, ...]] = ("sequential", "halving")
_FURTHEST: Final = 8  # times the recipe's seeds
_RESAMPLED: Final = 1000  # bootstrap: Efron 1979, Annals of Statistics 7


@dataclass(frozen=True, slots=True)
class Searches:
    """Campaigns searched in one way, an entry a campaign: trials, and what was found."""

    trials: Numbers  # of ideas and baseline
    found: Numbers  # of the better ideas
    false_share: Numbers  # of the improvements found, 0 where none was


@dataclass(frozen=True, slots=True)
class Measured:
    """Adaptive searches of the same campaigns beside those with a fixed number of seeds."""

    rule: Name
    ideas: int
    better: Numbers  # truly better ideas of each campaign
    adaptive: dict[Allocation, Searches]
    fixed: dict[int, Searches]


@dataclass(frozen=True, slots=True)
class Saved:
    """Trials an idea by an adaptive allocation, and with as many seeds for each at equal power."""

    power: float
    trials: float
    seeds: float
    fixed_trials: float

    @property
    def ratio(self) -> float:
        """What part of the trials it takes."""
        return self.trials / self.fixed_trials


def measure(world: World, seeds: int, q: float, tell: Tell = lambda _: None) -> list[Measured]:
    """Search the campaigns of the mix by each of our rules and allocations.

    `seeds` is the recipe's number; sequential allocation gives at most twice as many.
    """
    furthest = _FURTHEST * seeds
    tell(f"{world.campaigns} campaigns of {world.ideas} ideas, few of which are better")
    campaigns = list(world.draw(lambda source: mix(source, world.ideas), furthest))
    better = np.array([sum(e > 0 for e in c.effects.values()) for c in campaigns], dtype=float)
    measured = []
    for rule in OURS:
        adaptive: dict[Allocation, Searches] = {}
        for allocation in ADAPTIVE:
            tell(f"{rule}, {allocation}")
            settings = settings_of(rule, q, world.ideas, allocation)
            shown = [allocate(c.validation, settings, seeds) for c in campaigns]
            adaptive[allocation] = _searches(rule, campaigns, shown, q)
        most = max(found.found.sum() for found in adaptive.values())
        tell(f"{rule}, as many seeds for each idea")
        fixed: dict[int, Searches] = {}
        enough = 0  # numbers that find as much; one more than needed, for the bootstrap
        for n in range(2, furthest + 1):
            alike = [Allocated(c.validation.first(n), {}, 0) for c in campaigns]
            fixed[n] = _searches(rule, campaigns, alike, q)
            enough += fixed[n].found.sum() >= most
            if enough > 1:
                break
        measured.append(Measured(rule, world.ideas, better, adaptive, fixed))
    return measured


def mix(source: np.random.Generator, ideas: int) -> Ideas:
    """Return ideas of which most do nothing, some are worse and few are better."""
    size = source.uniform(SMALLEST, LARGEST, ideas)
    kind = source.random(ideas)
    effects = np.where(kind < BETTER, size, np.where(kind < BETTER + WORSE, -size, 0.0))
    return Ideas(effects, np.ones(ideas))


def saved(
    measured: Measured, allocation: Allocation, chosen: npt.NDArray[np.int64] | None = None
) -> Saved | None:
    """Return what the campaigns say, or those `chosen`; None where no power is equal.

    That is the case where nothing was found, or more than the largest fixed number finds.
    """
    which = np.arange(len(measured.better)) if chosen is None else chosen
    better, ours = measured.better[which].sum(), measured.adaptive[allocation]
    if not better:
        return None
    power = ours.found[which].sum() / better
    numbers = sorted(measured.fixed)
    reached = [measured.fixed[n].found[which].sum() / better for n in numbers]
    above = next((i for i, value in enumerate(reached) if value >= power), None)
    if not power or not above:
        return None
    step = (power - reached[above - 1]) / (reached[above] - reached[above - 1])
    seeds = numbers[above - 1] + step
    baseline = (measured.ideas + 1) / measured.ideas
    trials = ours.trials[which].mean() / measured.ideas
    return Saved(float(power), float(trials), float(seeds), float(seeds * baseline))


def figures(measured: Sequence[Measured], q: float) -> list[Figure]:
    """Return trials an idea beside those of equal power, and the share of false findings.

    The target on trials is sequential allocation's alone. Spreads are the widths of 95% intervals
    over campaigns; that of trials is the ratio's, by the bootstrap.
    """
    found: list[Figure] = []
    for one in measured:
        for allocation in ADAPTIVE:
            found.append(_false(one, allocation, q))
            equal = saved(one, allocation)
            if equal is None:
                continue
            low, high = interval(one, allocation)
            found.append(
                Figure(
                    name=f"trials, {allocation}, {one.rule}, power {equal.power:.2f}",
                    value=equal.trials,
                    unit="an idea",
                    compared_with=f"{equal.seeds:.1f} seeds each: {equal.fixed_trials:.2f}",
                    ratio=equal.ratio,
                    target=TARGET if allocation == "sequential" else None,
                    spread=high - low,
                    runs=len(one.better),
                )
            )
    return found


def interval(measured: Measured, allocation: Allocation) -> tuple[float, float]:
    """Return the 95% bootstrap interval of the ratio of trials, over campaigns."""
    source = np.random.default_rng(0)
    count = len(measured.better)
    drawn = (
        saved(measured, allocation, source.integers(0, count, count)) for _ in range(_RESAMPLED)
    )
    ratios = [found.ratio for found in drawn if found is not None]
    low, high = np.quantile(ratios, [0.025, 0.975]) if ratios else (0.0, 0.0)
    return float(low), float(high)


def table(measured: Sequence[Measured]) -> str:
    """Return the table for people: power, false findings and trials an idea."""
    rows: list[tuple[str, ...]] = [("rule", "seeds", "power", "false share", "trials an idea")]
    lines = []
    for one in measured:
        for n, searches in one.fixed.items():
            rows.append((one.rule, str(n), *_shown(one, searches)))
        for allocation, searches in one.adaptive.items():
            rows.append((one.rule, allocation, *_shown(one, searches)))
            lines.append(f"{one.rule}, {allocation}: {_said(one, allocation)}")
    return "\n".join(aligned(rows) + lines)


def _shown(one: Measured, searches: Searches) -> tuple[str, ...]:
    power = searches.found.sum() / (one.better.sum() or 1.0)
    trials = searches.trials.mean() / one.ideas
    return f"{power:.3f}", f"{searches.false_share.mean():.3f}", f"{trials:.2f}"


def _said(one: Measured, allocation: Allocation) -> str:
    equal = saved(one, allocation)
    if equal is None:
        return "no fixed number of seeds has equal power"
    low, high = interval(one, allocation)
    said = (
        f"{equal.ratio:.2f} ({low:.2f} to {high:.2f}) of the trials that {equal.seeds:.1f} seeds "
        f"for each idea take, with equal power"
    )
    if allocation != "sequential":
        return said
    return f"{said} (target at most {TARGET:g}: {'' if equal.ratio <= TARGET else 'NOT '}met)"


def _false(one: Measured, allocation: Allocation, q: float) -> Figure:
    false, last = one.adaptive[allocation].false_share, max(one.fixed)
    return Figure(
        name=f"false share of improvements, {allocation}, {one.rule}",
        value=float(false.mean()),
        unit="of findings",
        compared_with=f"{last} seeds each: {one.fixed[last].false_share.mean():.3f}",
        ratio=None,
        target=q,
        spread=float(3.92 * false.std() / np.sqrt(len(false))),
        runs=len(false),
    )


def _searches(
    rule: Name, campaigns: Sequence[Campaign], shown: Sequence[Allocated], q: float
) -> Searches:
    """Search campaigns by what was measured of each."""
    trials, found, false_share = [], [], []
    for campaign, known in zip(campaigns, shown, strict=True):
        claimed = _improved(search(known.split, rule, q, known.factors, known.planned))
        right = sum(campaign.effects[idea] > 0 for idea in claimed)
        trials.append(known.trials)
        found.append(right)
        false_share.append((len(claimed) - right) / max(1, len(claimed)))
    return Searches(*(np.array(column, dtype=float) for column in (trials, found, false_share)))


def _improved(found: dict[str, Finding]) -> list[str]:
    return [idea for idea, f in found.items() if f.verdict is Verdict.IMPROVEMENT]
