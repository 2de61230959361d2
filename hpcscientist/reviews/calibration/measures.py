"""Measures how well a reviewer's scores and decisions agree with people's, with intervals.

Shares have Wilson's interval; most other figures have a bootstrap interval, from percentiles of
resamples. Where both classes must be present, resamples are drawn within each class. The bootstrap
treats papers as independent. The expected calibration error is biased upwards on few papers, as
always: even a perfect map is above 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from hpcscientist.feedback.statistics import CONFIDENCE, wilson
from hpcscientist.records.reviews import Interval, Measure

Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

RESAMPLES: Final = 2000
BINS: Final = 10  # bins of equal width for the expected calibration error
_SEED: Final = 0


def of_decisions(accepted: Sequence[bool], decided: Sequence[bool]) -> dict[str, Measure]:
    """Return balanced accuracy, accuracy, F1, and the shares of false decisions.

    FPR is the share of the rejected papers that the reviewer would accept, FNR the share of the
    accepted papers that it would reject. None if there is no paper of that kind.
    """
    truth, said = np.asarray(accepted, dtype=bool), np.asarray(decided, dtype=bool)
    wrong_yes, wrong_no = int((said & ~truth).sum()), int((~said & truth).sum())
    rejected, kept = int((~truth).sum()), int(truth.sum())

    return {
        "balanced accuracy": _resampled(truth, said, _balanced),
        "accuracy": _share(int((truth == said).sum()), len(truth)),
        "F1": _resampled(truth, said, _f1),
        "FPR": _share(wrong_yes, rejected),
        "FNR": _share(wrong_no, kept),
    }


def auroc(accepted: Sequence[bool], scores: Sequence[float]) -> Measure:
    """Return the probability that an accepted paper scores above a rejected one; ties are half."""
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 (slow to import)

    truth, values = np.asarray(accepted, dtype=bool), np.asarray(scores, dtype=float)
    if not truth.any() or truth.all():
        return Measure(value=None, count=len(truth))
    picked = _picks(truth)
    ups = int(truth.sum())
    resampled = _areas(values[picked[:, :ups]], values[picked[:, ups:]])
    return Measure(
        value=float(roc_auc_score(truth, values)),
        interval=_percentiles(resampled),
        count=len(truth),
    )


def auroc_gain(
    accepted: Sequence[bool], scores: Sequence[float], better: Sequence[float]
) -> Measure:
    """Return how much the AUROC of `better` exceeds that of `scores` on the same papers."""
    truth = np.asarray(accepted, dtype=bool)
    if not truth.any() or truth.all():
        return Measure(value=None, count=len(truth))
    picked, ups = _picks(truth), int(truth.sum())
    values, others = (np.asarray(of, dtype=float) for of in (scores, better))
    rows = [_areas(of[picked[:, :ups]], of[picked[:, ups:]]) for of in (values, others)]
    plain = [float(_areas(of[truth][None], of[~truth][None])[0]) for of in (values, others)]
    return Measure(
        value=plain[1] - plain[0],
        interval=_percentiles(rows[1] - rows[0]),
        count=len(truth),
    )


def calibration_error(accepted: Sequence[bool], probabilities: Sequence[float]) -> Measure:
    """Return the expected calibration error over bins of equal width.

    It is the mean over bins, weighted by their papers, of the distance between the share of
    accepted papers and the mean probability.
    """
    truth = np.asarray(accepted, dtype=float)
    told = np.asarray(probabilities, dtype=float)

    def error(y: Floats, p: Floats) -> float:
        bins = np.minimum((p * BINS).astype(int), BINS - 1)
        gap = np.bincount(bins, weights=y - p, minlength=BINS)
        return float(np.abs(gap).sum() / len(y))

    if not len(truth):
        return Measure(value=None)
    rng = np.random.default_rng(_SEED)
    picks = rng.integers(len(truth), size=(RESAMPLES, len(truth)))
    found = np.array([error(truth[pick], told[pick]) for pick in picks])
    return Measure(value=error(truth, told), interval=_percentiles(found), count=len(truth))


def spearman(one: Sequence[float], other: Sequence[float]) -> Measure:
    """Return the rank correlation; None for fewer than three papers or if all scores are equal."""
    from scipy.stats import spearmanr  # noqa: PLC0415 (slow to import)

    a, b = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return Measure(value=None, count=len(a))
    rng = np.random.default_rng(_SEED)
    picks = rng.integers(len(a), size=(RESAMPLES, len(a)))
    found = _correlations(a[picks], b[picks])
    kept = found[np.isfinite(found)]
    return Measure(
        value=float(spearmanr(a, b).statistic),
        interval=_percentiles(kept) if len(kept) else None,
        count=len(a),
    )


def between_humans(ratings: Sequence[Sequence[float]]) -> Measure:
    """Return the rank correlation between two human scores of a paper, over papers with at least
    two.

    The order of scores means nothing, so every pair counts in both orders. The same number of pairs
    is drawn from each paper, so that papers with more scores weigh no more.
    """
    paired = [list(combinations(of, 2)) for of in ratings if len(of) > 1]
    if len(paired) < 3:
        return Measure(value=None, count=len(paired))
    rng = np.random.default_rng(_SEED)
    draws = np.empty((200, len(paired), 2))
    for place, pairs in enumerate(paired):
        chosen = np.asarray(pairs, dtype=float)[rng.integers(len(pairs), size=200)]
        flip = rng.random(200) < 0.5
        chosen[flip] = chosen[flip][:, ::-1]
        draws[:, place] = chosen
    found = _correlations(draws[:, :, 0], draws[:, :, 1])
    finite = found[np.isfinite(found)]
    if not len(finite):
        return Measure(value=None, count=len(paired))
    picks = rng.integers(len(paired), size=(RESAMPLES, len(paired)))
    which = rng.integers(200, size=RESAMPLES)
    again = _correlations(
        np.take_along_axis(draws[which, :, 0], picks, axis=1),
        np.take_along_axis(draws[which, :, 1], picks, axis=1),
    )
    again = again[np.isfinite(again)]
    return Measure(
        value=float(finite.mean()),
        interval=_percentiles(again) if len(again) else None,
        count=len(paired),
    )


def run_deviation(runs: Sequence[Sequence[float]]) -> Measure:
    """Return the standard deviation of one paper's score between runs, pooled over papers.

    Its interval is chi-squared's, for scores that are normal within a paper.
    """
    from scipy.stats import chi2  # noqa: PLC0415 (slow to import)

    several = [np.asarray(of, dtype=float) for of in runs if len(of) > 1]
    freedom = sum(len(of) - 1 for of in several)
    if not freedom:
        return Measure(value=None, count=0)
    total = float(sum(((of - of.mean()) ** 2).sum() for of in several))
    low, high = (float(chi2.ppf((1 + s * CONFIDENCE) / 2, freedom)) for s in (1, -1))
    return Measure(
        value=float(np.sqrt(total / freedom)),
        interval=(float(np.sqrt(total / low)), float(np.sqrt(total / high))),
        count=len(several),
    )


def _share(count: int, of: int) -> Measure:
    return (
        Measure(value=count / of, interval=wilson(count, of), count=of)
        if of
        else Measure(value=None)
    )


def _resampled(truth: Bools, said: Bools, of: Callable[[Bools, Bools], Floats]) -> Measure:
    if not truth.any() or truth.all():
        return Measure(value=None, count=len(truth))
    picked = _picks(truth)
    return Measure(
        value=float(of(truth[None], said[None])[0]),
        interval=_percentiles(of(truth[picked], said[picked])),
        count=len(truth),
    )


# Vectorised over rows: scikit-learn takes a millisecond each for thousands of resamples.
def _balanced(truth: Bools, said: Bools) -> Floats:
    found: Floats = (
        (said & truth).sum(axis=1) / truth.sum(axis=1)
        + (~said & ~truth).sum(axis=1) / (~truth).sum(axis=1)
    ) / 2
    return found


def _f1(truth: Bools, said: Bools) -> Floats:
    found: Floats = 2 * (said & truth).sum(axis=1) / (said.sum(axis=1) + truth.sum(axis=1))
    return found


def _picks(truth: Bools) -> npt.NDArray[np.int64]:
    """Return resamples of papers that keep both classes' sizes, accepted papers first."""
    rng = np.random.default_rng(_SEED)
    halves = [
        rng.choice(np.flatnonzero(truth == kind), size=(RESAMPLES, int((truth == kind).sum())))
        for kind in (True, False)
    ]
    return np.concatenate(halves, axis=1)


def _areas(ups: Floats, downs: Floats) -> Floats:
    """Return for each row the share of pairs in which the `ups` value is greater; ties are half."""
    from scipy.stats import rankdata  # noqa: PLC0415 (slow to import)

    count, other = ups.shape[1], downs.shape[1]
    ranks = rankdata(np.concatenate([ups, downs], axis=1), axis=1)[:, :count].sum(axis=1)
    found: Floats = (ranks - count * (count + 1) / 2) / (count * other)
    return found


def _correlations(a: Floats, b: Floats) -> Floats:
    """Return each row's rank correlation; NaN where one side does not vary."""
    from scipy.stats import rankdata  # noqa: PLC0415 (slow to import)

    x, y = rankdata(a, axis=1), rankdata(b, axis=1)
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    size = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = (x * y).sum(axis=1) / size
    return found


def _percentiles(values: Floats) -> Interval:
    low, high = np.percentile(values, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return float(low), float(high)


def rounded(measures: Mapping[str, Measure]) -> dict[str, Measure]:
    """Return measures rounded to six digits, as they are written to files."""
    return {
        name: Measure(
            value=None if m.value is None else round(m.value, 6),
            interval=None
            if m.interval is None
            else (round(m.interval[0], 6), round(m.interval[1], 6)),
            count=m.count,
        )
        for name, m in measures.items()
    }
