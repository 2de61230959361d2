"""Whether the baseline stays what it was while a campaign runs: one seed of it, run again.

A deterministic reference gives the same for the same seed, to the last digit. Where it does not,
reruns are held against the spread of the baseline's seeds: a rerun differs from the first run by no
more than two seeds differ, however the rest of its noise comes about, so that the test errs on the
side of silence. Two limits, as in a control chart (Shewhart 1931, Economic Control of Quality), by
Student's t since the spread is estimated: one rerun against the first run, and the mean of all. And
one trend: Kendall's tau between the values and their order (Mann 1945, Econometrica 13), which
wants no distribution and six values at least. Each at a level of 0.01: a false alarm costs a look.
The trend is looked for after 6, 12, 24, ... reruns only, each time at half the level of the time
before, so that all looks of a campaign together have that level (Bonferroni), however long it is.
The mean is looked at after every rerun: it hardly moves later, and in simulations of 200 reruns 6
in 1000 campaigns were told of one that was not there, where the seed explains nothing at all. These
two are what a campaign may be ended for (`LASTING`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Final

from hpcscientist.records.base import Record
from hpcscientist.records.trial import MetricSpec

LEVEL: Final = 0.01
LASTING: Final = ("drift mean", "drift trend")  # names of what no single run can have done
_TREND: Final = 6  # reruns, doubled from look to look; fewer have no p-value below the level
_SHOWN: Final = 12


class Rerun(Record):
    """One run of the baseline's first seed: 0 is the first, others count as the campaign goes on.

    `predictions` is the hash of its predictions, `failure` why it has no value.
    """

    number: int
    value: float | None
    node: str = ""
    predictions: str | None = None
    failure: str | None = None


def drift(
    runs: Sequence[Rerun], metric: MetricSpec, deviation: float, seeds: int
) -> dict[str, str]:
    """Return what is to be said of the reruns so far, by a name for each, the first run first.

    `deviation` is the standard deviation of the baseline's `seeds` seeds, 0 where they change
    nothing: then any difference is beyond their spread. In order of the reruns' numbers.
    """
    if not runs:
        return {}
    first, *again = sorted(runs, key=lambda run: run.number)
    if first.value is None:
        return {}
    told: dict[str, str] = {}
    for run in again:
        if run.failure is not None:
            told[f"drift failed/{run.number}"] = (
                f"the reference failed when the baseline's first seed was run again{_on(run)}: "
                f"{run.failure}; it ran before{_on(first)}"
            )
    values = [run for run in again if run.value is not None]
    unlike = [run for run in values if not _same(first, run)]
    if unlike:
        told["drift unequal"] = (
            f"the same seed of the baseline does not give the same: {_told(first, metric)} at "
            f"first, {_told(unlike[0], metric)} when run again"
        )
    for run in values:
        if _is_beyond(run.value or 0.0, first.value, 1, deviation, seeds):
            told[f"drift beyond/{run.number}"] = (
                f"the baseline has drifted: {_told(run, metric)} when its first seed was run "
                f"again, {_told(first, metric)} at first, more than its seeds differ; look at "
                "what changed, and at that node"
            )
    told |= _together(first.value, [run.value or 0.0 for run in values], metric, deviation, seeds)
    return told


def listing(runs: Sequence[Rerun], metric: MetricSpec) -> str:
    """Return the runs in one line, with their nodes; "" where all of them gave the same."""
    first, *again = sorted(runs, key=lambda run: run.number)
    if all(run.failure is None and _same(first, run) for run in again):
        return ""
    shown = ", ".join(_told(run, metric) for run in (first, *again)[:_SHOWN])
    more = len(runs) - _SHOWN
    return f"the baseline's first seed, run again: {shown}" + (f", {more} more" * (more > 0))


def _together(
    first: float, values: list[float], metric: MetricSpec, deviation: float, seeds: int
) -> dict[str, str]:
    """What all reruns show together."""
    told = {}
    if len(values) > 1 and _is_beyond(fmean(values), first, len(values), deviation, seeds):
        told["drift mean"] = (
            f"the baseline has drifted: {len(values)} reruns of its first seed have "
            f"{metric.name} {fmean(values):.4g} on average, {first:.4g} at first"
        )
    return told | _trends([first, *values])


def _trends(values: list[float]) -> dict[str, str]:
    """What the looks for a trend showed, the first that shows one; `values` the first run first."""
    reruns, level = _TREND, LEVEL / 2
    while reruns < len(values):
        seen = values[: reruns + 1]
        p = _trend(seen)
        if p is not None and p < level:
            return {
                "drift trend": (
                    f"the baseline drifts: its first seed goes from {seen[0]:.4g} to "
                    f"{seen[-1]:.4g} in {reruns} reruns (Kendall's tau, p {p:.2g}, the level of "
                    f"this look {level:.2g}); results of early and late ideas are not alike"
                )
            }
        reruns, level = 2 * reruns, level / 2
    return {}


def _is_beyond(value: float, first: float, reruns: int, deviation: float, seeds: int) -> bool:
    if value == first:
        return False
    if deviation == 0 or seeds < 2:
        return True
    from scipy.special import stdtrit  # noqa: PLC0415  (slow to import)

    limit = float(stdtrit(seeds - 1, 1 - LEVEL / 2)) * deviation * math.sqrt(1 + 1 / reruns)
    return abs(value - first) > limit


def _trend(values: list[float]) -> float | None:
    """Return the two-sided p-value of a trend; None where all values are alike."""
    if len(set(values)) == 1:
        return None
    from scipy.stats import kendalltau  # noqa: PLC0415  (slow to import)

    return float(kendalltau(range(len(values)), values).pvalue)


def _same(first: Rerun, run: Rerun) -> bool:
    known = first.predictions is not None and run.predictions is not None
    return first.value == run.value and not (known and first.predictions != run.predictions)


def _told(run: Rerun, metric: MetricSpec) -> str:
    value = "failed" if run.value is None else f"{metric.name} {run.value:.6g}"
    return value + _on(run)


def _on(run: Rerun) -> str:
    return f" on {run.node}" if run.node else ""
