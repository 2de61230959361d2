"""`benchmarks power`: what each rule finds of planted effects, and how far off it says they are.

Campaigns hold equally many ideas of each effect in `EFFECTS`, in random order. Counted are
claimed improvements, as the search finds them and as confirmation leaves them:

- power, the share of ideas with an effect that are claimed;
- sign errors, of the claims among ideas whose effect has this size, better or worse, the share
  that is truly worse (type S of Gelman & Carlin 2014, Perspectives on Psychological Science 9);
- exaggeration, the mean of what a claim says its gain is, over the true size (their type M);
  a confirmed claim says what the test split showed;
- shrinkage, the part of the claimed gains that the test split took away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.decisions.counting import Share, aligned
from benchmarks.decisions.judging import RULES, Claim, Name, claims, search
from benchmarks.decisions.world import Ideas, World
from hpcscientist.bench.figure import Figure
from hpcscientist.ports import Tell

SIZES: Final = (0.0, 0.5, 1.0, 1.5, 2.0)  # standard deviations
EFFECTS: Final = tuple(sorted({sign * size for size in SIZES for sign in (-1, 1)}))


@dataclass(slots=True)
class Tally:
    """Counts over the ideas whose true effect has one size, and sums of their claimed gains.

    `better` and `worse` are the claims whose idea truly is so, each found and confirmed; an idea
    that does nothing counts as better. `ideas` have the effect itself, `opposite` its negative.
    """

    ideas: int = 0
    opposite: int = 0
    better: tuple[int, int] = (0, 0)
    worse: tuple[int, int] = (0, 0)
    gain: tuple[float, float] = (0.0, 0.0)
    tested: float = 0.0

    def add(self, claim: Claim) -> None:
        """Count a claimed improvement."""
        one = (1, int(claim.confirmed))
        tested = claim.tested or 0.0
        if claim.effect < 0:
            self.worse = _sum(self.worse, one)
        else:
            self.better = _sum(self.better, one)
        said = self.gain
        self.gain = (said[0] + claim.found, said[1] + claim.confirmed * tested)
        self.tested += tested

    def power(self, stage: int) -> Share:
        """The share of ideas claimed; `stage` 0: found, 1: confirmed."""
        return Share(self.better[stage], self.ideas)

    def mistaken(self, stage: int) -> Share:
        """The share of ideas with the opposite effect that are claimed all the same."""
        return Share(self.worse[stage], self.opposite)

    def sign_errors(self, stage: int) -> Share:
        """The share of claims whose idea is truly worse."""
        return Share(self.worse[stage], self.worse[stage] + self.better[stage])

    def exaggeration(self, stage: int, size: float) -> float | None:
        """The mean claimed gain over the true size; None without claims or effect."""
        count = self.sign_errors(stage).whole
        return self.gain[stage] / count / size if count and size else None

    @property
    def shrinkage(self) -> float | None:
        """The part of the found gains that the test split took away; None without claims."""
        return 1 - self.tested / self.gain[0] if self.gain[0] else None


Arm = tuple[Name, int]  # rule, seeds
Measured = Mapping[Arm, Mapping[float, Tally]]  # by size


def measure(
    world: World, seeds: Sequence[int], q: float, tell: Tell = lambda _: None
) -> dict[Arm, dict[float, Tally]]:
    """Judge the planted campaigns by each rule with each number of seeds."""
    measured = {(r, n): {size: Tally() for size in SIZES} for n in seeds for r in RULES}
    tell(f"{world.campaigns} campaigns of {world.ideas} ideas, effects planted")
    for campaign in world.draw(lambda source: planted(source, world.ideas), max(seeds)):
        effects = list(campaign.effects.values())
        for (rule, n), by_size in measured.items():
            for size, tally in by_size.items():
                tally.ideas += effects.count(size)
                tally.opposite += effects.count(-size)
            shown = campaign.first(n)
            for claim in claims(shown, search(shown.validation, rule, q), q):
                if claim.improvement:
                    by_size[abs(claim.effect)].add(claim)
    return measured


def planted(source: np.random.Generator, ideas: int) -> Ideas:
    """Return ideas with every effect as often as any other, but for the remainder."""
    effects = np.resize(source.permutation(EFFECTS), ideas)
    return Ideas(source.permutation(effects), np.ones(ideas))


def figures(measured: Measured) -> list[Figure]:
    """Return power, sign errors, exaggeration and shrinkage of each rule and number of seeds.

    What there is none of (errors of claims that were never made) is left out.
    """
    found: list[Figure | None] = []
    for (rule, n), by_size in measured.items():
        for size, tally in by_size.items():
            for stage, when in enumerate(("found", "confirmed")):
                name = f"{{}}, {when}; {rule}, {n} seeds, {size:g} SD"
                what = "power" if size else "false improvements"
                found.append(tally.power(stage).figure(name.format(what), "of ideas"))
                if size:
                    errors = tally.sign_errors(stage)
                    found.append(errors.figure(name.format("sign errors"), "of claims"))
                    said = tally.exaggeration(stage, size)
                    found.append(_mean(name.format("exaggeration"), said, errors.whole))
            name = f"shrinkage; {rule}, {n} seeds, {size:g} SD"
            found.append(_mean(name, tally.shrinkage, tally.sign_errors(0).whole))
    return [figure for figure in found if figure is not None]


def table(measured: Measured) -> str:
    """Return the table for people: a row a rule, number of seeds and size of effect."""
    return "\n".join(
        [
            *aligned(list(_rows(measured))),
            "Each pair: as the search finds it, as confirmation leaves it. Effects in standard",
            "deviations (SD) of one value; 0.0: power is the share of false improvements.",
        ]
    )


def _rows(measured: Measured) -> Iterator[tuple[str, ...]]:
    yield ("rule", "seeds", "SD", "power", "sign errors", "exaggeration", "shrinkage")
    for (rule, n), by_size in measured.items():
        for size, tally in by_size.items():
            errors = [tally.sign_errors(stage).value if size else None for stage in (0, 1)]
            yield (
                rule,
                str(n),
                f"{size:.1f}",
                _pair(tally.power(0).value, tally.power(1).value, 3),
                _pair(errors[0], errors[1], 4),
                _pair(tally.exaggeration(0, size), tally.exaggeration(1, size), 2),
                _number(tally.shrinkage, 2),
            )


def _sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


def _mean(name: str, value: float | None, count: int) -> Figure | None:
    if value is None:
        return None
    return Figure(
        name, value, "times" if "exag" in name else "of gains", None, None, None, 0.0, count
    )


def _pair(found: float | None, confirmed: float | None, digits: int) -> str:
    return f"{_number(found, digits)}  {_number(confirmed, digits)}"


def _number(value: float | None, digits: int) -> str:
    return "-".rjust(digits + 2) if value is None else f"{value:.{digits}f}"
