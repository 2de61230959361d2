"""`benchmarks null`: how often a campaign of ideas of which none is better claims that one is.

Three null recipes: ideas that change nothing but the seed; half of the ideas noisier, their mean
as it was; half of them noisier and worse. Whatever is claimed to be an improvement is wrong, so
the share of campaigns that claim one is the false discovery rate, too. Confirmation is with fresh
seeds on the test split, by the rule of the loop; the point rule, which takes any better mean for
an improvement, is confirmed by the same.

The intervals of shares of findings take ideas for independent. Those of a campaign share its
baseline, so such intervals are too narrow; those of shares of campaigns are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from benchmarks.decisions.allocating import Allocation, allocate, most, settings_of
from benchmarks.decisions.counting import Share, aligned
from benchmarks.decisions.judging import OURS, POINT, RULES, Name, claims, search
from benchmarks.decisions.world import Ideas, World
from hpcscientist.bench.figure import Figure
from hpcscientist.feedback.statistics import wilson
from hpcscientist.ports import Tell

AFFECTED: Final = 0.5  # the share of ideas that add noise
NOISE: Final = 3.0  # times the baseline's
WORSE: Final = -3.0  # standard deviations


@dataclass(frozen=True, slots=True)
class Claimed:
    """Campaigns and findings, and those that claim an improvement: found, and confirmed."""

    campaigns: int
    findings: int
    campaigns_found: int
    campaigns_confirmed: int
    found: int
    confirmed: int

    @property
    def shares(self) -> dict[str, Share]:
        """The shares that q bounds, by name."""
        return {
            "campaigns, found": Share(self.campaigns_found, self.campaigns),
            "campaigns, confirmed": Share(self.campaigns_confirmed, self.campaigns),
            "findings, found": Share(self.found, self.findings),
            "findings, confirmed": Share(self.confirmed, self.findings),
        }


Measured = Mapping[str, Mapping[Name, Claimed]]  # by null recipe, by rule


def measure(
    world: World,
    seeds: int,
    q: float,
    allocation: Allocation = "fixed",
    tell: Tell = lambda _: None,
) -> dict[str, dict[Name, Claimed]]:
    """Run the campaigns of each null recipe and judge them by each rule.

    `seeds` is the recipe's number, and that of confirmation. Under the point rule every idea gets
    as many, whatever the `allocation`.
    """
    measured = {}
    for name, draw in _recipes(world.ideas).items():
        tell(f"{world.campaigns} campaigns of {world.ideas} ideas, {name}")
        measured[name] = _one(world, draw, seeds, q, allocation)
    return measured


def figures(measured: Measured, q: float) -> list[Figure]:
    """Return the shares of our rules, each beside the point rule's; the target is q."""
    found = []
    for name, by_rule in measured.items():
        for rule in OURS:
            for what, share in by_rule[rule].shares.items():
                beside = f"{POINT}: {by_rule[POINT].shares[what].value or 0.0:.3f}"
                unit = f"of {what.partition(',')[0]}"
                found.append(share.figure(f"{what}, {rule}; {name}", unit, beside, target=q))
    return [figure for figure in found if figure is not None]


def table(measured: Measured, q: float) -> str:
    """Return the table for people, and which shares are above q."""
    rows = list(_rows(measured))
    over = [figure for figure in figures(measured, q) if not figure.is_met]
    lines = [
        *aligned(rows),
        "Shares that claim an improvement, none of which is one, with 95% intervals.",
        f"Target: at most {q:g} for all rules but {POINT}: "
        + (f"NOT met by {len(over)} shares" if over else "met by all shares"),
    ]
    for figure in over:
        line = f"NOT met: {figure.name}: {figure.value:.4f}"
        low, _ = wilson(round(figure.value * figure.runs), figure.runs)
        chance = "; its interval holds q, more --campaigns tell" if low <= q else ""
        lines.append(line + chance)
    return "\n".join(lines)


def _rows(measured: Measured) -> Iterator[tuple[str, ...]]:
    heads = ("campaigns, found", "confirmed", "findings, found", "confirmed")
    yield ("null recipe", "rule", *heads)
    for name, by_rule in measured.items():
        for rule, claimed in by_rule.items():
            yield (name, rule, *(share.shown() for share in claimed.shares.values()))


def _one(
    world: World,
    draw: Callable[[np.random.Generator], Ideas],
    seeds: int,
    q: float,
    allocation: Allocation,
) -> dict[Name, Claimed]:
    counts = {rule: np.zeros(4, dtype=int) for rule in RULES}
    findings = dict.fromkeys(RULES, 0)
    settings = {
        rule: settings_of(rule, q, world.ideas, "fixed" if rule == POINT else allocation)
        for rule in RULES
    }
    for campaign in world.draw(draw, max(seeds, most(allocation, seeds))):
        shown = campaign.first(seeds)  # the test split's seeds are not allocated
        for rule in RULES:
            known = allocate(campaign.validation, settings[rule], seeds)
            judged = search(known.split, rule, q, known.factors, known.planned)
            improved = [c for c in claims(shown, judged, q) if c.improvement]
            sure = sum(claim.confirmed for claim in improved)
            counts[rule] += (len(improved) > 0, sure > 0, len(improved), sure)
            findings[rule] += len(judged)
    return {
        rule: Claimed(world.campaigns, findings[rule], *map(int, counts[rule])) for rule in RULES
    }


def _recipes(ideas: int) -> dict[str, Callable[[np.random.Generator], Ideas]]:
    return {
        "seeds alone": partial(_draw, ideas, noise=1.0, worse=0.0),
        "half noisier": partial(_draw, ideas, noise=NOISE, worse=0.0),
        "half noisier and worse": partial(_draw, ideas, noise=NOISE / 2, worse=WORSE),
    }


def _draw(ideas: int, source: np.random.Generator, noise: float, worse: float) -> Ideas:
    affected = source.random(ideas) < AFFECTED
    return Ideas(effects=np.where(affected, worse, 0.0), noise=np.where(affected, noise, 1.0))
