"""Whether a claim holds in the figures, when its trials were run again and bits differ.

Two things are asked. Is the recorded effect one that the rerun's noise explains? The rerun has
the same seeds, so where code is deterministic nothing differs at all; where it is not, another
run is another sample of what seeds do. The effect of a rerun then lies, with a probability of
95 %, in the prediction interval of the recorded one (Patil, Peng & Leek 2016, Perspectives on
Psychological Science 11, 539-544); not in its confidence interval, which the mean of an equally
large honest rerun misses in 17 of 100 cases (Cumming & Maillardet 2006, Psychological Methods
11, 217-227). Theirs is for large samples: for few seeds it is Welch's interval of the difference
of two means. Runs that share their seeds differ less than that, so the probability is a lower
bound. A difference within the recipe's minimum effect is none.

And does the rerun show by itself what was found? For an improvement or a decline it has to, by a
one-sided test at q; that another run was not significant is no evidence against "no change".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcscientist.feedback.confirmation import one_sided
from hpcscientist.feedback.decision import gain
from hpcscientist.feedback.statistics import compare
from hpcscientist.records.findings import Comparison, Verdict
from hpcscientist.records.trial import Direction, MetricSpec

_ROUNDING = 1e-9  # of the larger value: a scorer's sums in another order


@dataclass(frozen=True, slots=True)
class Agreement:
    """The effect again, minus the recorded one, and the interval in which chance leaves it.

    `low` and `high` are None where there are too few seeds, or seeds change nothing: then only a
    difference within the minimum effect is none. `too_few`: with one seed there is no noise to
    hold a difference against, so that none beyond the minimum effect can be told from chance.
    """

    difference: float
    low: float | None
    high: float | None
    agrees: bool
    too_few: bool = False


def is_same(value: float, other: float) -> bool:
    """Whether two values of a metric differ by rounding at most."""
    return abs(value - other) <= _ROUNDING * max(abs(value), abs(other))


def agreement(
    recorded: Mapping[int, float], again: Mapping[int, float], minimum_effect: float
) -> Agreement:
    """Compare effects (idea minus baseline) by seed, as recorded and again.

    Raises ValueError if a side is empty or holds what is no finite number.
    """
    # Keys of their own: these are two samples, not pairs.
    found = compare(
        {2 * i: recorded[seed] for i, seed in enumerate(sorted(recorded))},
        {2 * i + 1: again[seed] for i, seed in enumerate(sorted(again))},
    )
    explained = found.ci_low is not None and found.ci_high is not None
    explained = explained and (found.ci_low or 0.0) <= 0.0 <= (found.ci_high or 0.0)
    small = abs(found.delta) <= max(minimum_effect, _ROUNDING * abs(found.baseline_mean))
    agrees, few = explained or small, min(len(recorded), len(again)) < 2
    return Agreement(found.delta, found.ci_low, found.ci_high, agrees, few and not agrees)


def shows(comparison: Comparison, finding: Verdict, metric: MetricSpec, q: float | None) -> bool:
    """Whether a rerun's comparison by itself shows an improvement or a decline again.

    `q` is the level of its one-sided test; None: the campaign took any difference of means.
    What was no change is shown by any comparison.
    """
    if finding is Verdict.MAINTENANCE:
        return True
    if finding is Verdict.DECLINE:
        metric = _turned(metric)
    better = gain(comparison, metric)
    if q is None:
        return better > 0
    p = one_sided(comparison, metric)
    return better > metric.minimum_effect and p is not None and p <= q


def _turned(metric: MetricSpec) -> MetricSpec:
    """Return the metric for which worse is better."""
    up = metric.direction is Direction.MAXIMIZE
    direction = Direction.MINIMIZE if up else Direction.MAXIMIZE
    return metric.model_copy(update={"direction": direction})
